"""Cleaning the answers of a model into texts that can be samples, by fixed rules.

`clean` repeats these steps until nothing changes, so that cleaning twice gives the same as cleaning once:

1. Remove control characters, private-use characters and lone surrogates, the tokens by which chat models separate
   turns, and everything after the end of a turn.
2. Remove an echo of the prompt; then markdown fences, headings and emphasis, short unfinished lines before other lines,
   everything up to "here is the revised version:", labels such as "Abstract:", quotation marks around the whole text,
   unpaired ones, and stage directions such as "(laughs)".
3. Replace every run of white space by one space.
4. Remove sentences that contain a link, an e-mail address, a DOI, a telephone number, an identifier of seven or more
   digits or a blank to be filled in ("[your name]"), because a model makes these up; that contain a character which
   could not be decoded; that address the user ("I hope this helps"), are about the model or the task ("I've been tasked
   to write a post") or repeat five words of the instructions; that have no words; or that repeat an earlier sentence.
5. Remove the last sentence if the text was cut in the middle of it, or if it ends in a colon.

It rejects texts that are shorter or longer than requested, that refuse to answer, or that loop. The rules are for
English and count words: they do not suit languages without spaces between words.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, zip_longest
from operator import eq

_END = r"[.!?\u2026]"
_CLOSERS = r"[\"'\u201d\u2019)\]]"
_BOUNDARY = re.compile(rf"({_END}{_CLOSERS}?)\s+(?=[^\sa-z])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|Prof|St|vs|etc|al|Fig|Figs|No|Nos|Vol|approx|ca|cf|resp|Inc|Ltd|Jr|Sr|e\.g|i\.e)\.)$",
    re.IGNORECASE,
)
_FINISHED = re.compile(rf"{_END}{_CLOSERS}*$")
_PROMISE = re.compile(r"\w:$")  # no ":)" or ":("
_TAIL = 32  # last characters, which are enough to tell how a text ends

_TURN_TOKEN = re.compile(r"<\|[^<>|]{0,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<end_of_turn>|<start_of_turn>")
_ROLE = re.compile(r"^\s*(?:assistant|user|system|human|ai|bot)[ \t]*[:\n]\s*", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[^\n`]*\n(.*?)(?:\n\s*```.*)?$", re.DOTALL)
_MARKDOWN = re.compile(
    r"\*\*|__|(?<!\S)\*(?=\w)|(?<=\w)\*(?!\S)|^\s*#{1,6}\s+|^\s*[-*\u2022]\s+|^\s*(?:-{3,}|\*{3,}|_{3,})\s*$|```",
    re.MULTILINE,
)
_MARKS = frozenset("*_#`")
_HEADING_WORDS = 14
_ANSWER = r"(?:abstract|answer|example|paraphrase|paragraph|post|review|rewrite|sample|sentences?|text|title|version)"
_PREAMBLE = re.compile(
    rf"^\s*(?:sure|certainly|of course|absolutely|okay|great|yes)\b[^:\n]{{0,160}}{_ANSWER}\b[^:.\n]{{0,160}}[:\n]\s*"
    rf"|(?:^|(?<=[.!?\"\n]))\s*(?:here(?:'s|\u2019s| is| are)|below is|the following is|this is)\b"
    rf"[^:.!?\n]{{0,160}}{_ANSWER}\b[^:.!?\n]{{0,160}}:\s*"
    r"|^\s*(?:sure|certainly|of course|absolutely)(?: thing)?[!.]\s+(?=[A-Z\"])",
    re.IGNORECASE,
)
_EAGER = ("sure", "certainly", "of course", "absolutely")
_LABEL = re.compile(
    r"^\s*(?:(?:the )?(?:rephrased|revised|rewritten|final|sample|example|customer|reddit|medical|short)\s+)*"
    r"(?:abstract|summary|answer|response|output|text|version|review|(?:post )?title|post|paragraph|sentences?)\s*:\s+",
    re.IGNORECASE,
)
# "(laughs)", "(pauses, smiling)": told by models that play a part
_ACTED = re.compile(
    r"\s*\((?:he |she |i )?(?:laugh|chuckl|giggl|paus|sigh|smil|grinn?|wink|nodd?|shrugg?)(?:e?s|ing)\b[^()\d]{0,40}\)",
    re.IGNORECASE,
)
_PAIRS = {'"': '"', "\u201c": "\u201d", "'": "'", "\u2018": "\u2019", "\u00ab": "\u00bb", "`": "`"}
_EARLY, _LATE = re.compile("(?:^|\\s)['\u2018]"), re.compile("[.!?]['\u2019]$")
_DOUBLE = re.compile('["\u201c\u201d]')

_BLANK = (  # "[your name]", but not "[IQR]"
    "(?:an?|author|business|city|company|customer|date|doctor|email|hospital|insert|institution|link|location|name"
    "|number|patient|phone|product|restaurant|the|title|topic|university|website|x+|year|your)"
)
_MADE_UP = re.compile(
    r"https?:|www\.|[\w-]\.(?:com|org|net|edu|gov|io|co\.uk)\b"  # links
    r"|[\w.+-]@[\w-]+\.\w"
    r"|\bdoi\b|\b10\.\d{4,9}/"
    r"|\d{7}|\b(?:NCT|PMC|PMID|ISBN|ISSN|CRD)[ :#-]*\d"
    r"|\(?\b\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b|\b1-8\d\d-|\b555-\d{4}\b"  # telephones
    rf"|\[{_BLANK}\b[^\]\d]{{0,60}}\]"
    r"|\[(?:some(?:one|body|thing|where|time)|other|similar|specific|relevant)(?: [a-z]+){0,3}\]"
    r"|</?[a-z]+(?: [a-z-]+=[^<>]*)?/?>|\{[^{}]{1,60}\}|\bX{3,}\b|_{2,}"
    r"|\ufffd",  # replaces bytes that are not a character
    re.IGNORECASE,
)
_TO_USER = re.compile(
    r"^(?:(?:i )?hope (?:this|that|these) help|let me know|feel free to|please (?:note|let me know|feel free)"
    r"|(?:this|the) (?:rephrased|revised|rewritten|new) (?:version|text|abstract|review|post|sentences?)\b"
    r"|in this (?:rephrased|revised|rewritten|version)|(?:this|the) (?:abstract|passage|rewrite) \w+s\b"
    r"|is there anything else|would you like me to|i(?:'ve| have) (?:rephrased|rewritten|revised)"
    r"|i(?:'m| am|'d be| would be) (?:happy|glad|here|pleased|delighted) to (?:help|assist|provide|offer)"
    r"|(?:this|the) (?:article|paragraph|post|review|summary|text) (?:is|was|has been) (?:re)?written"
    rf"|note that this is|here(?:'s| is) (?:an?|the|your) (?:\w+ ){{0,2}}{_ANSWER}\b"
    r"|how (?:can|may) i (?:help|assist)(?: you)?(?: today)?\?$"
    r"|(?:is there )?anything (?:else )?i can help(?: you)? with\b)"
    r"|\bi(?:'m| am) here to (?:help|assist|guide)\b|\bi(?:'ve| have) been (?:designed|programmed) to\b"
    r"|\byou(?:'re| are) an? (?:\w+ )?(?:chatbot|ai assistant|language model)\b"
    r"|\bSmolLM\b|\bas an ai\b|\bi(?:'m| am) (?:an?|the|your) (?:\w+ ){0,2}(?:ai|bot|language model)\b"
    r"|\b(?:in|about|than|exactly) \d+ words\b|\b\d+ ?[-\u2013] ?\d+ words\b|\bsentence structures?\b"
    r"|\b(?:your|the original) (?:abstract|sentences?)\b|\b(?:my|the) text is as follows\b"
    r"|\b(?:tasked|asked|instructed) (?:to|with) (?:creat|craft|compos|draft|generat|provid|(?:re)?writ)(?:e|ing)?"
    r" (?:\S+ ){0,4}(?:abstract|paragraph|post|text)\b",
    re.IGNORECASE,
)
_LEAK = 5  # words in a row that a text does not share with the instructions by chance
_REFUSAL = re.compile(
    r"^(?:i(?:'m| am) (?:sorry|unable|not able)|i apologi[sz]e|i can(?:no|')t (?:assist|help|provide|write|fulfil)"
    r"|as an? (?:ai|artificial|large language|language model)|as an? \w+ (?:ai|language model))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Rules:
    """The rules for one text."""

    prompt: str = ""  # an echo of it is removed
    instructions: tuple[str, ...] = ()  # the fixed words of prompts: a sentence that repeats them is about the task
    cut: bool = False  # whether the text was cut because its tokens ran out
    fewest_words: int = 4
    most_words: int = 2000


def clean(text: str, rules: Rules | None = None) -> str | None:
    """Return the text cleaned by the rules above, or None if it is rejected."""
    rules = rules or Rules()
    before = None
    while before != text:  # ends, because no rule lengthens a text
        before = text
        text = _cleaned_once(text, rules)
    words = text.split()
    in_bounds = rules.fewest_words <= len(words) <= rules.most_words
    return text if in_bounds and not refuses(text) and not loops(words) else None


def _cleaned_once(text: str, rules: Rules) -> str:
    text = strip_turns(strip_controls(text))
    text = strip_preamble(strip_headings(strip_markdown(strip_echo(text, rules.prompt))))
    text = strip_quotes(collapse(_ACTED.sub("", text)))
    text = drop_sentences(text, rules.instructions)
    return whole_sentences(text) if rules.cut else without_promise(text)


def strip_controls(text: str) -> str:
    """Remove invisible characters: all of the categories C* except line breaks and tabs."""
    if not text.replace("\n", " ").replace("\t", " ").isprintable():  # most are, and checking characters is slow
        text = "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")
    return unicodedata.normalize("NFC", text)


def strip_turns(text: str) -> str:
    """Keep only the first turn, without the tokens and the role that open it."""
    parts = [part for part in _TURN_TOKEN.split(text) if part.strip()]
    return _ROLE.sub("", parts[0]) if parts else ""


def strip_echo(text: str, prompt: str) -> str:
    """Remove the prompt from the front if the model repeated it, ignoring white space."""
    prompt_words = prompt.split()
    if not prompt_words:
        return text
    words = text.split(maxsplit=len(prompt_words))
    if words[: len(prompt_words)] != prompt_words:
        return text
    return words[-1] if len(words) > len(prompt_words) else ""


def strip_markdown(text: str) -> str:
    """Keep the content of a fence, and remove headings, bullets, rules and emphasis."""
    if fenced := _FENCE.match(text):
        text = fenced[1]
    marked = "\n" in text or not _MARKS.isdisjoint(text) or text.lstrip().startswith(("-", "\u2022"))
    return _MARKDOWN.sub("", text) if marked else text


def strip_headings(text: str) -> str:
    """Remove short unfinished lines before a line that starts with a capital: titles, headings and keywords."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    kept = [
        line
        for line, following in zip_longest(lines, lines[1:], fillvalue="")
        if is_finished(line)
        or line.endswith((",", ";"))
        or len(line.split()) > _HEADING_WORDS
        or not following
        or following[0].islower()
    ]
    return "\n".join(kept)


def strip_preamble(text: str) -> str:
    """Remove everything up to "here is the revised version:", and a label such as "Abstract:"."""
    eager = text.lstrip()[:12].casefold().startswith(_EAGER)
    rest = _PREAMBLE.split(text)[-1] if eager or ":" in text or "\n" in text else text  # no preamble without these
    return _LABEL.sub("", rest if rest.strip() else text)


def strip_quotes(text: str) -> str:
    """Remove quotation marks around the whole text, and an unpaired one."""
    if len(text) > 1 and _PAIRS.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1]):
        return text[1:-1].strip()
    if _LATE.search(text) and not _EARLY.search(text):
        return text[:-1]
    return _paired(text) if len(_DOUBLE.findall(text)) % 2 else text


def _paired(text: str) -> str:
    """Remove the double quotation marks that open or close nothing, but not those of inches."""
    opened: int | None = None
    alone: set[int | None] = set()
    for mark in _DOUBLE.finditer(text):
        here = mark.start()
        if mark[0] == "\u201c" or (mark[0] == '"' and (not here or text[here - 1] in " ([")):
            alone.add(opened)
            opened = here
        elif opened is not None:
            opened = None
        elif not text[here - 1].isdigit():
            alone.add(here)
    alone.add(opened)
    return " ".join("".join(c for place, c in enumerate(text) if place not in alone).split())


def collapse(text: str) -> str:
    """Replace every run of white space by one space, so that a text is one paragraph."""
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """Split at the ends of sentences, but not after abbreviations and initials. Joined by spaces they are the text."""
    return list(_split(text))


@lru_cache(2**12)  # a text is split again by several rules, and for each of its variations
def _split(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    start = 0
    for boundary in (*_BOUNDARY.finditer(text), None):
        piece = text[start : boundary.end(1) if boundary else None]
        start = boundary.end() if boundary else start
        if parts and _ABBREVIATION.search(parts[-1][-_TAIL:]):
            parts[-1] = f"{parts[-1]} {piece}"
        elif piece.strip():
            parts.append(piece.strip())
    return tuple(parts)


def is_finished(text: str) -> bool:
    """Whether the text ends where a sentence does."""
    return bool(_FINISHED.search(text[-_TAIL:])) and not text.endswith("...")


def drop_sentences(text: str, instructions: tuple[str, ...] = ()) -> str:
    """Remove sentences with made-up details, about the task, without words, or repeated."""
    kept: dict[str, str] = {}
    for part in sentences(text):
        sentence = _LABEL.sub("", part)
        if belongs(sentence, instructions):
            kept.setdefault(sentence.casefold(), sentence)
    return " ".join(kept.values())


@lru_cache(2**16)  # variations of a text share most of its sentences
def belongs(sentence: str, instructions: tuple[str, ...] = ()) -> bool:
    """Whether a sentence has words, has no made-up details, and is not about the task."""
    wordless = len(list(islice(filter(str.isalpha, sentence), 2))) < 2
    return not (wordless or _MADE_UP.search(sentence) or _TO_USER.search(sentence) or leaks(sentence, instructions))


def leaks(sentence: str, instructions: tuple[str, ...]) -> bool:
    """Whether the sentence repeats five words in a row of the instructions."""
    return bool(instructions) and not _shingles((sentence,)).isdisjoint(_known_shingles(instructions))


def _shingles(texts: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    runs = [re.findall(r"\w+", text.casefold()) for text in texts]
    return frozenset(tuple(words[i : i + _LEAK]) for words in runs for i in range(len(words) - _LEAK + 1))


_known_shingles = cache(_shingles)


def whole_sentences(text: str) -> str:
    """Remove an unfinished last sentence, even if that leaves nothing."""
    parts = sentences(text)
    return " ".join(parts if not parts or is_finished(parts[-1]) else parts[:-1])


def without_promise(text: str) -> str:
    """Remove a last sentence such as "Share with Emma:", after which nothing follows, unless it is the only one."""
    parts = sentences(text) if _PROMISE.search(text[-_TAIL:]) else []
    return " ".join(parts[:-1]) or text


def refuses(text: str) -> bool:
    """Whether the model speaks about itself instead of answering."""
    return bool(_REFUSAL.match(text))


def loops(words: list[str]) -> bool:
    """Whether the text repeats itself: a phrase of up to six words four times in a row, or few distinct words."""
    folded = [word.casefold() for word in words]
    for size in range(1, 7):
        if sum(map(eq, folded, folded[size:])) < 3 * size:  # a fast test that settles most cases
            continue
        run = 0
        for here, there in zip(folded, folded[size:], strict=False):
            run = run + 1 if here == there else 0
            if run >= 3 * size:
                return True
    trigrams = list(zip(folded, folded[1:], folded[2:], strict=False))
    if len(trigrams) >= 20 and len(set(trigrams)) < 0.7 * len(trigrams):
        return True
    return any(len(set(folded[i : i + 50])) < 22 for i in range(0, len(folded) - 49, 10))
