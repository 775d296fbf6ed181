"""Units as the package siunitx has them: ``\\gram\\per\\cubic\\centi\\metre`` is g/cm³."""

from __future__ import annotations

import re

_PREFIXES = {
    "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "hecto": "h", "kilo": "k",
    "mega": "M", "giga": "G", "tera": "T", "pico": "p", "femto": "f", "peta": "P",
}  # fmt: skip
_UNITS = {
    "metre": "m", "meter": "m", "gram": "g", "second": "s", "ampere": "A", "kelvin": "K",
    "mole": "mol", "candela": "cd", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J",
    "watt": "W", "coulomb": "C", "volt": "V", "farad": "F", "ohm": "Ω", "tesla": "T",
    "celsius": "°C", "degreeCelsius": "°C", "degree": "°", "percent": "%", "minute": "min",
    "hour": "h", "day": "d", "litre": "l", "liter": "l", "tonne": "t", "electronvolt": "eV",
    "barn": "b", "bar": "bar", "bit": "bit", "byte": "B", "dalton": "Da", "decibel": "dB",
    "arcminute": "′", "arcsecond": "″", "radian": "rad", "steradian": "sr", "hectare": "ha",
    "angstrom": "Å", "becquerel": "Bq", "sievert": "Sv", "gray": "Gy", "siemens": "S",
    "weber": "Wb", "henry": "H", "lumen": "lm", "lux": "lx", "katal": "kat", "kg": "kg",
}  # fmt: skip
_POWERS = {"square": "²", "squared": "²", "cubic": "³", "cubed": "³"}
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*|([^\\]+)")


def unit_text(source: str) -> str:
    """Return a unit as it is printed; commands of which nothing is known are their names."""
    written: list[str] = []
    prefix, power, divides = "", "", False
    for command, symbol in _TOKEN.findall(source):
        if command == "per":
            divides = True
        elif command in _PREFIXES:
            prefix += _PREFIXES[command]
        elif command in ("square", "cubic"):
            power = _POWERS[command]
        elif command in _POWERS:  # behind its unit
            written.append(_POWERS[command])
        else:
            text = symbol.strip().replace("~", " ").replace(".", " ")
            text = _UNITS.get(command, command) if command else text
            if text:
                before = ("1/" if not written else "/") if divides else " " * bool(written)
                written.append(f"{before}{prefix}{text}{power}")
                prefix, power, divides = "", "", False
    return "".join(written)
