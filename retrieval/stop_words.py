"""Words that tell no text from another, question words among them; English and Chinese, chosen by us."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH = _words(
    """
    a about an and any are as at be been being but by can could did do does doing for from had has have how i if in
    into is it its me my no not of on or our should so such than that the their them then there these they this
    those to us was we were what when where which while who why will with would you your
    """
)
CHINESE = _words(
    """
    的 了 关于 是 在 和 与 或 及 也 都 就 而 被 把 对 为 于 有 没 没有
    不 吗 呢 吧 啊 我 我们 你 您 他 它 这 那 这个 那个 这些 那些 什么 怎么
    怎么办 怎么样 怎么做 怎样 如何 为什么 为何 哪 哪些 哪个 几 多少 是否 会 能
    能够 可以 应该 应 要 需要 想 请 请问 一个 一下 时 时候 后 之后 以后 中
    里 上 下 到 从 以
    """
)
