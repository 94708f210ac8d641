"""Hosts, bars and processes of a run as coloured text; never as markup, which a run's text could abuse."""

from collections.abc import Sequence

from textual.content import Content

from vedette.model import ENDS
from vedette.query.closeup import CloseUp, ProcessLine
from vedette.query.given import ARG, ASKED, apart
from vedette.query.overview import HostLine
from vedette.query.progress import Bar
from vedette.query.runs import SKEWED_S
from vedette.query.silence import LOST
from vedette.views.spark import bar as draw_bar
from vedette.views.spark import spark
from vedette.views.text import clean, duration, moment, number, percent
from vedette.views.top.columns import SIGNS, WAITING, amount, fit, short_size

COLOURS = {
    "running": "$text-primary", "leaving": "$text-primary", "done": "$text-success",
    "failed": "bold $text-error", "cancelled": "$text-warning",
    "ended": "$text-accent", "lost": "bold $text-accent",
}  # fmt: skip
_DIM = "$foreground 60%"
_SILENT_S = 15.0
_MOST_HOSTS = 4  # to leave room for the runs


def hosts(lines: Sequence[HostLine], width: int) -> Content:
    """Return the hosts, one per line; if there are many, those with the most processes."""
    shown = sorted(lines, key=lambda line: (line.link != "here", -line.processes, line.name))
    wide = min(20, max(8, width // 5), max((len(line.name) for line in shown[:_MOST_HOSTS]), default=0))
    rows = [_host(line, width, wide) for line in shown[:_MOST_HOSTS]]
    if len(shown) > _MOST_HOSTS:
        more = shown[_MOST_HOSTS:]
        text = f"and {len(more)} hosts more, with {_count(sum(line.processes for line in more), 'process')}"
        rows.append(Content.styled(text, _DIM))
    return Content("\n").join(rows)


def _host(line: HostLine, width: int, wide: int) -> Content:
    name = fit(clean(line.name, one_line=True), wide)
    parts: list[tuple[str, str] | str] = [(name, "bold")]
    parts.append(f"  {_count(line.runs, 'run')}, {_count(line.processes, 'process')}")
    if line.link == "cut":
        quiet = f", silent for {duration(line.silent_s)}" if line.silent_s is not None else ""
        parts.append((f"  not connected{quiet}", "bold $text-error"))
    elif line.silent_s is not None and line.silent_s > _SILENT_S:
        parts.append((f"  silent for {duration(line.silent_s)}", "$text-warning"))
    if line.cpu_percent is not None:
        share = line.cpu_percent / (100 * line.cpus) if line.cpus else None
        drawn = f" {draw_bar(share, 6)}" if share is not None and width >= 100 else ""
        of = f" of {line.cpus} cores" if line.cpus and width >= 70 else ""
        parts += [("  CPU", _DIM), (drawn, "$text-primary"), f" {line.cpu_percent:.0f}%{of}"]
    if line.memory_bytes is not None:
        total = line.memory_total_bytes
        share = line.memory_bytes / total if total else None
        drawn = f" {draw_bar(share, 6)}" if share is not None and width >= 100 else ""
        of = f" of {short_size(total)}" if total and width >= 70 else ""
        parts += [("  memory", _DIM), (drawn, "$text-primary"), f" {short_size(line.memory_bytes)}{of}"]
    for gpu, used in line.gpus.items():
        parts += [(f"  GPU {clean(gpu, one_line=True)}", _DIM), f" {used.get('gpu_percent', 0):.0f}%"]
        if "gpu_memory_bytes" in used:
            parts.append(f" {short_size(used['gpu_memory_bytes'])}")
        if width >= 100 and "gpu_temperature_c" in used:
            parts.append(f" {used['gpu_temperature_c']:.0f}°C")
    if line.skew_s is not None and abs(line.skew_s) >= SKEWED_S:
        ahead = "ahead" if line.skew_s > 0 else "behind"
        parts.append((f"  clock {duration(abs(line.skew_s))} {ahead}", "$text-warning"))
    elif line.link == "linked":
        parts.append(("  linked", _DIM))
    return Content.assemble(*parts).truncate(width, ellipsis=True)


def _count(number_of: int, what: str) -> str:
    plural = {"process": "processes"}.get(what, what + "s")
    return f"{number_of} {what if number_of == 1 else plural}"


def headline(near: CloseUp, width: int) -> Content:
    """Return the state and the name of a run, and why it ended."""
    run = near.run
    state = clean(run.state, one_line=True)
    why = run.cause or (f"last heard {duration(run.silent_s)} ago" if run.state == LOST else "")
    parts: list[tuple[str, str] | str] = [
        (f"{SIGNS.get(run.state, WAITING)} {state}", COLOURS.get(run.state, "")),
        ("  " + clean(run.name, one_line=True), "bold"),
        (f"  {clean(run.id, one_line=True)}", _DIM),
        (f"  {clean(run.project, one_line=True)}", ""),
        (f"  {duration(run.duration_s)}", ""),
    ]
    if why:
        parts.append((f"  {clean(why, one_line=True)}", COLOURS.get(run.state, "")))
    return Content.assemble(*parts).truncate(width, ellipsis=True)


def bars(found: Sequence[Bar], now: int, width: int) -> Content:
    """Return bars, one per line, the oldest first."""
    if not found:
        return Content.styled("no progress yet: vedette.track(iterable) and vedette.Progress show theirs here", _DIM)
    wide = max(8, min(40, width // 3))
    rows = []
    for bar in found:
        share = bar.fraction
        name = fit(clean(bar.name, one_line=True) or "progress", max(8, min(30, width // 4)))
        eta_s = bar.eta_s(now)
        rate = bar.rate
        count = f"{amount(bar.done)}/{amount(bar.total)}" if bar.total is not None else amount(bar.done)
        took_s = ((bar.end_t or now) - bar.start_t) / 1e9 if bar.start_t is not None else None
        more = [count, duration(took_s), f"{rate:.3g}/s" if rate else "", f"{duration(eta_s)} left" if eta_s else ""]
        if bar.state != "running":
            more.append(bar.state + (f": {clean(bar.cause, one_line=True)}" if bar.cause else ""))
        rows.append(
            Content.assemble(
                (f"{SIGNS.get(bar.state, WAITING)} ", COLOURS.get(bar.state, "")),
                name,
                " ",
                (draw_bar(share, wide), COLOURS.get(bar.state, "")),
                f" {percent(share) if share is not None else '':>4} ",
                ("  ".join(filter(None, more)), _DIM if bar.state == "running" else COLOURS.get(bar.state, "")),
            ).truncate(width, ellipsis=True)
        )
    return Content("\n").join(rows)


_RESOURCES = (
    ("cpu_percent", "CPU", 6), ("memory_bytes", "MEMORY", 8), ("threads", "THREADS", 7),
    ("read_bytes_per_s", "READ/S", 8), ("written_bytes_per_s", "WRITTEN/S", 9), ("gpu_memory_bytes", "GPU MEM", 8),
)  # fmt: skip


def processes(near: CloseUp, width: int) -> Content:
    """Return what each process uses, one per line."""
    if not near.processes:
        return Content.styled("no process yet", _DIM)
    used = [item for item in _RESOURCES if any(item[0] in line.values for line in near.processes)]
    name_width = max(8, min(24, max(len(line.name) for line in near.processes)))
    host_width = max(4, min(16, max(len(line.host) for line in near.processes)))
    left = width - 2 - name_width - host_width - 9 - sum(size_ + 1 for *_, size_ in used)
    trend = max(0, min(32, left - 2))
    if trend < 6 or not any(line.trends for line in near.processes):
        trend = 0
    head = "  " + " ".join(
        [fit("PROCESS", name_width), fit("HOST", host_width), fit("PID", 7, right=True)]
        + [fit(title, size_, right=True) for _, title, size_ in used]
        + ([fit(" CPU OVER TIME", trend)] if trend else [])
    )
    rows = [Content.styled(head, f"bold {_DIM}").truncate(width)]
    rows += [_process(line, used, (name_width, host_width, trend)).truncate(width) for line in near.processes]
    if near.hidden:
        rows.append(Content.styled(f"and {near.hidden} more that have ended", _DIM))
    return Content("\n").join(rows)


def _process(line: ProcessLine, used: Sequence[tuple[str, str, int]], widths: tuple[int, int, int]) -> Content:
    name_width, host_width, trend = widths
    numbers = []
    for key, _, size_ in used:
        value = line.values.get(key)
        text = "" if value is None else f"{value:.0f}%" if key == "cpu_percent" else f"{value:.0f}"
        if value is not None and "bytes" in key:
            text = short_size(value)
        numbers.append(fit(text, size_, right=True))
    ended = line.state in ENDS
    parts: list[tuple[str, str] | str] = [
        (f"{SIGNS.get(line.state, WAITING)} ", COLOURS.get(line.state, "")),
        (fit(clean(line.name, one_line=True), name_width), _DIM if ended else ""),
        (" " + fit(clean(line.host, one_line=True), host_width), _DIM),
        (" " + fit(str(line.pid or ""), 7, right=True), _DIM),
        (" " + " ".join(numbers), ""),
    ]
    if trend:
        parts.append(("  " + spark(line.trends.get("cpu_percent", []), trend), "$text-secondary"))
    if line.cause:
        parts.append(("  " + clean(line.cause, one_line=True), COLOURS.get(line.state, "")))
    return Content.assemble(*parts)


def facts(near: CloseUp) -> Content:
    """Return the description and config of a run, and its newest values."""
    run = near.run
    notes = run.attrs.get("notes")
    about = {
        "id": run.id,
        "project": run.project,
        "experiment": run.attrs.get("experiment"),
        "script": run.attrs.get("script"),
        "tags": ", ".join(run.tags),
        "notes": notes,
        "started": moment(run.start_t),
        "ended": moment(run.end_t),
    }
    parts: list[tuple[str, str] | str] = []
    sections = (
        ("run", about),
        ("config", near.config),
        ("asked for, not in its config", apart(run.attrs, ASKED)),
        ("options of its command line", apart(run.attrs, ARG)),
        ("newest values", near.values),
    )
    for title, values in sections:
        shown = {key: value for key, value in values.items() if value not in (None, "")}
        if not shown:
            continue
        parts.append((f"{title}\n", "bold"))
        names = {key: clean(str(key), one_line=True)[:60] for key in shown}
        wide = max(len(name) for name in names.values())
        for key, value in shown.items():
            text = number(value) if isinstance(value, float) else clean(str(value), one_line=True)
            parts += [(f"  {names[key]:<{wide}}  ", _DIM), f"{text[:2000]}\n"]
        parts.append("\n")
    return Content.assemble(*parts)
