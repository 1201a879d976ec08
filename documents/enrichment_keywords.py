"""Which of a model's keywords could be looked up: terms of this very document, not words of every day. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from retrieval.keyword_matching import is_identifier_like
from retrieval.lexical import content_characters
from retrieval.normalise import normalise

MOST = 12
LONGEST = 60
_SEPARATORS = re.compile(r"[,，、;；\n\r]")
# They stand in most documents and in most questions: as a keyword one would draw every question to itself.
_WORDS = """
    answer answers article problem problems question questions error errors issue issues fault guide guides document
    documents documentation manual overview introduction summary system systems service services data information help
    faq note notes example examples step steps process method methods solution solutions tool tools user users code
    config configuration setting settings api test tests time list file files server
    文档 文件 问题 错误 异常 系统 服务 数据 信息 帮助 指南 手册 说明 概述 简介 介绍 总结 流程 步骤 方法 方案 解决方案
    解决办法 处理 处理方法 配置 设置 用户 工具 示例 例子 常见问题 注意事项 接口 测试 时间 列表 服务器 代码
"""
_EVERYDAY = frozenset(_WORDS.split())


def usable_keywords(texts: Iterable[str], *, document: str) -> list[str]:
    """At most 12, each once by normalised spelling, in order. ``document`` is the normalised text.

    A separator divides a text in two. Left out are single characters, long ones, everyday words, and identifiers that
    the document does not have: a code that a model made up would answer for a document about something else.
    """
    found: dict[str, str] = {}
    for text in texts:
        for part in _SEPARATORS.split(text):
            keyword = " ".join(part.split()).strip("\"'`“”‘’")
            key = normalise(keyword)
            if _usable(keyword, key, document):
                found.setdefault(key, keyword)
    return list(found.values())[:MOST]


def _usable(keyword: str, key: str, document: str) -> bool:
    if len(key) < 2 or len(keyword) > LONGEST or key in _EVERYDAY:
        return False
    if not any(content_characters(key)):
        return False
    return key in document or not is_identifier_like(keyword)
