"""What a lookup says in words, Chinese or English: always what to do next, never only what not to do (LK-2).

Titles and headings come from documents: they are put in quotation marks, on one line, at most 200 characters. The
query is never repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrieval.lookup_types import Language

_TITLE_LENGTH = 200
_DOCUMENTS_NAMED = 5
_UNREAD_NAMED = 8
# Room for a list of section titles; what does not fit is counted.
_TITLES_ROOM = 3000


@dataclass(frozen=True)
class Held:
    """A document whose text the reader has, and the sections of it that are still to be read."""

    title: str
    path: str
    unread_sections: tuple[str, ...] = ()


class Messages(Protocol):
    """One language's sentences."""

    def miss(self) -> str: ...
    def miss_without_search(self) -> str: ...
    def unreadable(self) -> str: ...
    def without_search(self) -> str: ...
    def without_exact_search(self) -> str: ...
    def without_memory(self) -> str: ...
    def already_given(self, held: Sequence[Held]) -> str: ...
    def domain_given(self, domains: Sequence[str], held: Sequence[Held]) -> str: ...
    def budget_used_up(self, held: Sequence[Held]) -> str: ...
    def unknown_section(self, title: str, sections: Sequence[str]) -> str: ...


class _Chinese:
    def miss(self) -> str:
        return "知识库中没有与此相关的内容。请如实说明知识库未收录，并指出还缺少哪方面的信息。"

    def miss_without_search(self) -> str:
        return (
            "语义检索暂时不可用，精确匹配没有找到内容。"
            "请说明目前只能做精确匹配；如果知道确切的错误码或术语，可以用它查询。"
        )

    def unreadable(self) -> str:
        return "有文档命中，但它的正文目前无法读取。请说明暂时取不到这部分内容，并写明需要补充什么信息。"

    def without_search(self) -> str:
        return "语义检索暂时不可用，本次结果只来自精确匹配；请据此作答，并说明结论可能不完整。"

    def without_exact_search(self) -> str:
        return "精确匹配暂时不可用，可能有文档没有被找到；请据此作答，并说明结论可能不完整。"

    def without_memory(self) -> str:
        return "检索记忆暂时不可用，结果可能与之前重复；已经掌握的内容请直接使用。"

    def already_given(self, held: Sequence[Held]) -> str:
        given = self._documents(held)
        what = f"相关内容此前已经给出：{given}。" if given else "相关内容此前已经给出。"
        return f"{what}请直接依据已掌握的内容作答，并写明还缺少什么。{self._unread(held)}"

    def domain_given(self, domains: Sequence[str], held: Sequence[Held]) -> str:
        names = "、".join(_one_line(domain) for domain in domains)
        given = self._documents(held)
        what = f"已掌握：{given}。" if given else ""
        return (
            f"本次命中的文档都属于已检索过的知识域（{names}）。{what}请依据已掌握的内容作答；"
            "如果仍缺少某个具体维度，请先写明缺少什么，再用确切的关键词或 section_title 定向查询一次。"
            f"{self._unread(held)}"
        )

    def budget_used_up(self, held: Sequence[Held]) -> str:
        given = self._documents(held)
        if not given:
            return "本次问答的检索次数已用完，知识库没有给出内容。请现在如实作答：说明没有找到依据，并写明缺少什么。"
        return f"本次问答的检索次数已用完。请现在依据已掌握的内容作答：{given}；并写明还缺少什么。"

    def unknown_section(self, title: str, sections: Sequence[str]) -> str:
        if not sections:
            return f"《{_one_line(title)}》没有分章节；请不带 section_title 查询，直接阅读正文。"
        names = _listed([f"“{_one_line(name)}”" for name in sections], "、", "等共 {count} 个")
        return f"《{_one_line(title)}》没有这个章节，它的章节有：{names}。请从中选一个作为 section_title。"

    def _documents(self, held: Sequence[Held]) -> str:
        named = "、".join(f"《{_one_line(one.title)}》（{_flat(one.path)}）" for one in held[:_DOCUMENTS_NAMED])
        return f"{named} 等 {len(held)} 篇" if len(held) > _DOCUMENTS_NAMED else named

    def _unread(self, held: Sequence[Held]) -> str:
        parts = [
            f"《{_one_line(one.title)}》还有未读章节："
            + "、".join(f"“{_one_line(name)}”" for name in one.unread_sections[:_UNREAD_NAMED])
            + (" 等" if len(one.unread_sections) > _UNREAD_NAMED else "")
            for one in held[:_DOCUMENTS_NAMED]
            if one.unread_sections
        ]
        return "；".join(parts) + "；用 section_title 指定章节名即可读取。" if parts else ""


class _English:
    def miss(self) -> str:
        return "The knowledge base has nothing on this. Say so plainly, and name the information that is missing."

    def miss_without_search(self) -> str:
        return (
            "Semantic search is unavailable at the moment and exact search found nothing. Say that only exact matches"
            " can be found for now; if you know the exact error code or term, look that up."
        )

    def unreadable(self) -> str:
        return (
            "A document matched, but its text cannot be read at the moment."
            " Say that this part is out of reach for now, and name the information that is needed."
        )

    def without_search(self) -> str:
        return (
            "Semantic search is unavailable at the moment, so this comes from exact matches only;"
            " answer from it and say that it may be incomplete."
        )

    def without_exact_search(self) -> str:
        return (
            "Exact search is unavailable at the moment, so documents may have been overlooked;"
            " answer from what was found and say that it may be incomplete."
        )

    def without_memory(self) -> str:
        return "The retrieval memory is unavailable, so this may repeat what you hold already; use what you hold."

    def already_given(self, held: Sequence[Held]) -> str:
        given = self._documents(held)
        what = f"You were given this already: {given}." if given else "You were given this already."
        return f"{what} Answer from what you hold, and name what is still missing.{self._unread(held)}"

    def domain_given(self, domains: Sequence[str], held: Sequence[Held]) -> str:
        names = ", ".join(_one_line(domain) for domain in domains)
        given = self._documents(held)
        what = f" You hold: {given}." if given else ""
        return (
            f"Everything found lies in domains that you have looked up already ({names}).{what} Answer from what you"
            " hold; if one specific thing is missing, name it first, then look it up once by its exact keyword or with"
            f" section_title.{self._unread(held)}"
        )

    def budget_used_up(self, held: Sequence[Held]) -> str:
        given = self._documents(held)
        if not given:
            return (
                "The lookups for this question are used up, and the knowledge base gave nothing."
                " Answer now: say that nothing was found, and name what is missing."
            )
        return (
            "The lookups for this question are used up."
            f" Answer now from what you hold ({given}), and name what is missing."
        )

    def unknown_section(self, title: str, sections: Sequence[str]) -> str:
        if not sections:
            return f'"{_one_line(title)}" has no sections; look it up without section_title to read its text.'
        names = _listed([f'"{_one_line(name)}"' for name in sections], ", ", "and so on, {count} in all")
        return f'"{_one_line(title)}" has no such section. Its sections: {names}. Take one of them as section_title.'

    def _documents(self, held: Sequence[Held]) -> str:
        named = ", ".join(f'"{_one_line(one.title)}" ({_flat(one.path)})' for one in held[:_DOCUMENTS_NAMED])
        return f"{named} and others, {len(held)} in all" if len(held) > _DOCUMENTS_NAMED else named

    def _unread(self, held: Sequence[Held]) -> str:
        parts = [
            f'"{_one_line(one.title)}" has sections that you have not read: '
            + ", ".join(f'"{_one_line(name)}"' for name in one.unread_sections[:_UNREAD_NAMED])
            + (" and others" if len(one.unread_sections) > _UNREAD_NAMED else "")
            for one in held[:_DOCUMENTS_NAMED]
            if one.unread_sections
        ]
        return " " + "; ".join(parts) + "; section_title gets them." if parts else ""


_LANGUAGES: dict[Language, Messages] = {"zh": _Chinese(), "en": _English()}


def messages_in(language: Language) -> Messages:
    """The sentences of ``LOOKUP_LANGUAGE``; the completeness hints are the same in both."""
    return _LANGUAGES[language]


def _flat(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _one_line(text: str) -> str:
    """A document's words as one quoted line cannot be read as anything else."""
    line = _flat(text)
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"


def _listed(names: Sequence[str], between: str, rest: str) -> str:
    shown: list[str] = []
    room = _TITLES_ROOM
    for name in names:
        room -= len(name) + len(between)
        if room < 0 and shown:
            return between.join(shown) + between + rest.format(count=len(names))
        shown.append(name)
    return between.join(shown)
