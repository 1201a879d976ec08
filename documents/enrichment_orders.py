"""Whether a text that should describe a document speaks to its reader instead, as a prompt does. Pure.

What it knows are the usual ways to turn a model from its task, to draw every question to one place, or to keep others
from being searched. A description that happens to sound so is asked for once more in other words, so a wrong suspicion
costs little; a phrase that is missing here still meets the fence and the rules of the prompt that the text ends up in.
"""

from __future__ import annotations

import re
import unicodedata

_ENGLISH = (
    # turning away from a task
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instructions?|prompts?|rules?|guidelines?|previous|prior"
    r"|above|earlier|everything|other (?:documents?|domains?|sources?))\b",
    r"\b(?:reveal|repeat|print|output|leak|show)\b.{0,20}\b(?:your|system|these|previous|above|hidden)\s+"
    r"(?:prompt|instructions)\b",
    r"\byou are (?:now|an? (?:ai|assistant|planner|agent|model)|the (?:ai|assistant|planner|agent|model))\b",
    r"(?:^|[.;:!?] ?)you (?:must|shall|should|will|have to)\b",
    r"\b(?:as an ai|language model:|act as (?:an?|the|if)|pretend (?:to|that))\b",
    r"^\W*(?:system|assistant|user|developer|planner|tool)\s*[:：]",
    # drawing every question here
    r"\b(?:always|only|first|must)\s+(?:search|retrieve|choose|pick|select|consult|route|prefer)\s+"
    r"(?:this|here|it|the (?:document|domain))\b",
    r"(?:^\W*|[.,;:]\s*|\b(?:for|to|with|answer(?:s|ing)?|cover(?:s|ing)?|handl(?:es?|ing)|retrieve|use|search)\s+)"
    r"(?:any|every|all)\s+(?:possible\s+|user\s+|kinds? of\s+|other\s+)?(?:questions?|quer(?:y|ies)|topics?|requests?"
    r"|prompts?|domains?|subjects?)\b(?!\s+(?:about|on|concerning|regarding|related|relating|that|which|in|with|where"
    r"|involving|to do))",
    r"\b(?:no matter|regardless of|whatever)\b.{0,20}\b(?:question|query|topic|asked|user)\b",
    # keeping others from being searched
    r"\b(?:do not|don't|never|stop|without|instead of)\s+(?:search(?:ing)?|retriev(?:e|ing)|consult(?:ing)?|us(?:e|ing)"
    r"|choos(?:e|ing)|look(?:ing)? (?:up|in|at))\s+(?:any\s+|the\s+)?(?:other|others|another|anything|further)\b",
)
_CHINESE = (
    r"(?:忽略|无视|忘记|忘掉|抛弃|不要理会|覆盖).{0,12}(?:指令|提示词|系统提示|规则)",
    r"(?:忽略|无视|忘记|忘掉|不要理会)(?:掉)?(?:以上|之前|上述|前面|先前|所有|一切|其他)(?:的)?"
    r"(?:所有|一切|全部)?(?:内容|要求|说明|指示|提示|信息|文档|领域)",
    r"(?:系统提示词|输出提示词|你现在是|你是一[个名位]|请扮演|请你扮演)",
    r"(?:^|[。；;！!？?，,])\s*(?:请)?你(?:必须|应当|应该|只能|务必|需要|要)",
    r"^\W*(?:系统|助手|用户|开发者)\s*[:：]",
    r"(?:始终|总是|永远|一律|务必|必须|优先|只能|只)(?:先|优先|只)?(?:检索|搜索|查询|选择|使用|查阅)(?:本|该|这|此)(?:个|篇)?"
    r"(?:领域|文档|知识库|文章|目录)",
    r"(?:^|[，,。；;：: ]|回答|解答|处理|对于|针对|适用于|覆盖)(?:任何|所有|一切|全部)(?:的)?(?:用户)?(?:的)?"
    r"(?:问题|提问|查询|请求|领域|主题)",
    r"(?:无论|不管|不论)(?:是)?(?:什么|任何|何种|哪种|用户|问).{0,8}(?:问题|提问|询问|内容|什么)",
    r"(?:不要|禁止|切勿|不得|无需|不必|停止)(?:再)?(?:检索|搜索|查询|选择|使用|查找|查阅)(?:其他|其它|别的|任何)",
)
_ORDER = re.compile("|".join((*_ENGLISH, *_CHINESE)), re.IGNORECASE)


def is_order(text: str) -> bool:
    """Whether one line of text gives an order, plays a role, or claims to be for everything."""
    return _ORDER.search(unicodedata.normalize("NFKC", text)) is not None
