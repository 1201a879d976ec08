"""Measures the keyword index alone, at 100,000 documents, against SPEC L0-5: ``python -m bench.keyword_index``.

Each figure is printed with its target and a verdict; exit code 1 if one fails. No database, no service. Every query is
timed five times and counts with its median. Times are processor time of the measuring thread, so that a busy machine
does not count (the index waits for nothing: on an idle one both are the same); ``--wall`` takes the clock instead.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from retrieval.keyword_index import KeywordEntry, KeywordIndex
from retrieval.normalise import normalise

Figure = tuple[float, float | None, str]
"""Value, bound (None: shown only) and unit. A bound in ``times`` is a least value, the others are most values."""

HEAVY = "微服务"
VERDICTS = {True: "ok", False: "FAILED", None: ""}


def words(text: str) -> list[str]:
    return text.split()


SUBJECTS = words(
    "支付 订单 库存 账户 物流 优惠券 网关 缓存 数据库 消息队列 日志 监控 证书 域名 容器 任务调度 对账 退款 风控 短信"
)
PLACES = words("华东 华南 华北 西南 海外 灰度 测试 预发 主库 从库 前端 后台 移动端 批处理 实时 离线")
ASPECTS = words("超时 限流 降级 回滚 扩容 告警 延迟 丢失 重复 幂等 死锁 泄漏 权限 配置 迁移 备份 恢复 校验 熔断 压测")
NOUNS = words("gateway ledger invoice session replica snapshot broker scheduler certificate webhook tenant shard index")
VERBS = words("timeout retry failover restore rotate throttle drain rebalance migrate audit resync eviction")
AREAS = words("auth billing cart search stock mail media report")
CODE_AREAS = words("PAY ORD STK ACC LOG CPN GTW CCH")
UNANSWERED = (
    "今天的会议改到几点",
    "how do I book a meeting room",
    "ERR_QUANTUM_FLUX",
    "tim",
    "ERR_PA",
    "网关支",
    "错误码 8",
)


def keywords_of(number: int, dice: random.Random) -> list[str]:
    """Five keywords: two Chinese, one or two English, one or two codes, one of them the document's own."""
    subject = "支付" if dice.random() < 0.48 else dice.choice(SUBJECTS[1:])
    chinese = subject + dice.choice(PLACES) + dice.choice(ASPECTS)
    second = HEAVY if number % 2 else dice.choice(SUBJECTS) + dice.choice(ASPECTS) + str(dice.randrange(400))
    english = f"{dice.choice(NOUNS)} {dice.choice(VERBS)}" + (f" {dice.randrange(3000)}" if dice.random() < 0.7 else "")
    code = f"ERR_{dice.choice(CODE_AREAS)}_{number:06d}"
    setting = f"{dice.choice(AREAS)}.{dice.choice(NOUNS)}-{dice.choice(VERBS)}-{dice.randrange(40)}"
    return [chinese, second, english, code, setting]


def entries(count: int, *, seed: int, first: int = 1) -> Iterator[KeywordEntry]:
    """Documents made on the spot, each with strings of its own, as a database hands them out."""
    dice = random.Random(seed)
    for number in range(first, first + count):
        yield KeywordEntry(
            number,
            f"knowledge_base/domain{number % 40}/document-{number}.md",
            f"文档 {number}：处理步骤与注意事项",
            tuple(str(keyword.encode(), "utf-8") for keyword in keywords_of(number, dice)),
            f"说明第 {number} 号问题的现象、原因与处理办法",
            f"domain{number % 40}",
        )


def questions(sample: Sequence[KeywordEntry], dice: random.Random) -> list[str]:
    """Sentences around real keywords, bare keywords, fragments of them, and questions that nothing answers."""
    made = []
    for entry in sample:
        chinese, second, english, code, setting = entry.keywords
        number = code.rsplit("_", 1)[1]
        made += [
            f"线上报错{code}，应该怎么处理？",
            f"how do I handle {code.lower()} in {setting}?",
            f"生产环境的{second}昨晚又出现了，影响范围有多大",
            f"what does {english} mean for us",
            chinese,
            setting,
            number,
            english.rsplit(" ", 1)[-1],
            second[-4:],
            f"请问{code}9和{setting}-extra有什么区别",
            dice.choice(UNANSWERED),
        ]
    dice.shuffle(made)
    return made


class PlainLoop:
    """The loop of the design documents: every keyword of every document, one after the other."""

    def __init__(self, documents: Sequence[KeywordEntry]) -> None:
        self.rows = [(entry, tuple(map(normalise, entry.keywords))) for entry in documents]

    def match(self, query: str) -> list[KeywordEntry]:
        text = normalise(query)
        return [entry for entry, keywords in self.rows if any(keyword in text for keyword in keywords)]


def resident_bytes() -> int:
    """What the process holds in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Stopwatch:
    """How long a piece of work takes, in milliseconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def __call__(self, work: Callable[[], object], times: int = 1) -> float:
        """The median of so many runs."""
        taken = []
        for _ in range(times):
            begin = self._clock()
            work()
            taken.append(self._clock() - begin)
        return statistics.median(taken) * 1000


def quantile(values: Sequence[float], share: float) -> float:
    """The value below or at which ``share`` of the values lie."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def measure(documents: int, samples: int, seed: int, milliseconds: Stopwatch) -> dict[str, Figure]:
    """Each figure by name."""
    dice = random.Random(seed)
    index = KeywordIndex()
    before = resident_bytes()
    for entry in entries(documents, seed=seed):
        index.put(entry)
    memory = (resident_bytes() - before) / documents
    everything = [match.entry for match in index.match(HEAVY)] + [match.entry for match in index.match("ERR_")]
    everything = list({entry.document_id: entry for entry in everything}.values())
    assert len(everything) == documents
    return {
        "memory a document": (memory, 2000, "bytes"),
        **_queries(index, everything, samples, dice, milliseconds),
        **_heavy(index, documents, milliseconds),
        **_changes(index, documents, seed, milliseconds),
    }


def _queries(
    index: KeywordIndex, everything: Sequence[KeywordEntry], samples: int, dice: random.Random, milliseconds: Stopwatch
) -> dict[str, Figure]:
    asked = [query for query in questions(dice.sample(everything, samples), dice) if len(index.match(query)) <= 100]
    times = [milliseconds(lambda query=query: index.match(query), 5) for query in asked]  # type: ignore[misc]
    loop = PlainLoop(everything)
    plain = [milliseconds(lambda query=query: loop.match(query)) for query in asked[:25]]  # type: ignore[misc]
    middle = statistics.median(times)
    return {
        f"p99 over {len(asked)} queries of up to 100 matches": (quantile(times, 0.99), 1, "ms"),
        "median of those": (middle, 0.2, "ms"),
        "faster than the plain loop, medians": (statistics.median(plain) / middle, 500, "times"),
    }


def _heavy(index: KeywordIndex, documents: int, milliseconds: Stopwatch) -> dict[str, Figure]:
    shared = f"{HEAVY}怎么部署"
    assert abs(len(index.match(shared)) - documents // 2) <= 1
    fragment, codes = "支付", "gtw"
    live = set(range(documents + 1))
    found = len(index.match(fragment))
    many = index.match(shared)
    return {
        f"match of {documents // 2} documents by one keyword": (milliseconds(lambda: index.match(shared), 9), 50, "ms"),
        "reading every one of those matches": (milliseconds(lambda: deque(many, maxlen=0), 9), None, "ms"),
        "the same match with a row check": (milliseconds(lambda: index.match(shared, live.intersection), 9), 50, "ms"),
        "its first two and the count, rows checked 50 at a time": (
            milliseconds(lambda: index.find(shared, live.intersection, wanted=2), 9), 50, "ms",
        ),
        f"match of {found} documents by a fragment of keywords": (
            milliseconds(lambda: index.match(fragment), 9), 50, "ms",
        ),
        f"match of {len(index.match(codes))} documents, each by a code of its own": (
            milliseconds(lambda: index.match(codes), 9), 50, "ms",
        ),
    }  # fmt: skip


def _changes(index: KeywordIndex, documents: int, seed: int, milliseconds: Stopwatch) -> dict[str, Figure]:
    fresh = list(itertools.islice(entries(2000, seed=seed + 1, first=documents + 1), 2000))
    added = [milliseconds(lambda entry=entry: index.put(entry)) for entry in fresh]  # type: ignore[misc]
    removed = [milliseconds(lambda entry=entry: index.remove(entry.document_id)) for entry in fresh]  # type: ignore[misc]
    return {
        "add a document, p99 of 2000": (quantile(added, 0.99), 5, "ms"),
        "remove a document, p99 of 2000": (quantile(removed, 0.99), 5, "ms"),
        "longest pause of those 4000 changes": (max(added + removed), 50, "ms"),
    }


def target(row: dict[str, Any]) -> str:
    if row["target"] is None:
        return ""
    return f"{'>=' if row['unit'] == 'times' else '<'} {row['target']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="how many documents (targets are for 100,000)")
    parser.add_argument("--samples", type=int, default=300, help="how many documents questions are made from, 11 each")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--wall", action="store_true", help="time by the clock, other programs' work included")
    options = parser.parse_args()
    stopwatch = Stopwatch(perf_counter if options.wall else thread_time)
    figures = measure(options.documents, options.samples, options.seed, stopwatch)
    rows: list[dict[str, Any]] = [
        {"figure": name, "value": round(value, 4), "unit": unit, "target": bound,
         "ok": None if bound is None else value >= bound if unit == "times" else value < bound}
        for name, (value, bound, unit) in figures.items()
    ]  # fmt: skip
    if options.json:
        print(json.dumps({"documents": options.documents, "seed": options.seed, "figures": rows}, ensure_ascii=False))
    else:
        print(f"keyword index, {options.documents} documents of five keywords")
        for row in rows:
            print(f"{row['value']:>12.3f} {row['unit']:<6} {target(row):<9} {VERDICTS[row['ok']]:<7} {row['figure']}")
    return 1 if any(row["ok"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
