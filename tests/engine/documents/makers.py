"""Files of binary formats, written by hand: PDF, Word, EPUB, zip and tar."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.engine.documents.helpers import assemble_pdf

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@dataclass(frozen=True)
class Text:
    """A line of a PDF page: its left end, its baseline, what it says and how large."""

    x: float
    y: float
    text: str
    size: float = 10
    up: bool = False  # from the bottom of the page to its top


def column(x: float, y: float, lines: Sequence[str], *, pitch: float = 12) -> list[Text]:
    """Lines under each other."""
    return [Text(x, y - pitch * number, line) for number, line in enumerate(lines)]


def make_page_pdf(
    pages: Sequence[Sequence[Text]],
    *,
    title: str = "",
    bookmarks: Sequence[tuple[int, str] | tuple[int, str, float]] = (),
    rotate: int = 0,
    drawn: str = "",
    more: str = "",
) -> bytes:
    """A PDF of placed lines; `bookmarks` are (page index, title, height), all of one level.

    `drawn` is drawn on each page; `more` goes into the file's metadata.
    """
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    outline = 4 + 2 * len(pages)
    marks = f"/Outlines {outline + 1} 0 R" if bookmarks else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {marks} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        content = "\n".join([drawn, *(_shown(line) for line in lines)])
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Rotate {rotate} "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects.append(f"<< /Title ({_escaped(title)}) {more} >>")
    if bookmarks:
        first, last = outline + 2, outline + 1 + len(bookmarks)
        objects.append(f"<< /First {first} 0 R /Last {last} 0 R /Count {len(bookmarks)} >>")
        for number, (page, name, *top) in enumerate(bookmarks):
            view = f"/XYZ 0 {top[0]} 0" if top else "/Fit"
            following = f"/Next {first + number + 1} 0 R" if first + number < last else ""
            objects.append(
                f"<< /Title ({_escaped(name)}) /Parent {outline + 1} 0 R {following} "
                f"/Dest [{4 + 2 * page} 0 R {view}] >>"
            )
    return assemble_pdf(objects, f"/Info {outline} 0 R")


def _shown(line: Text) -> str:
    matrix = "0 1 -1 0" if line.up else "1 0 0 1"
    return f"BT /F1 {line.size} Tf {matrix} {line.x} {line.y} Tm ({_escaped(line.text)}) Tj ET"


def _escaped(text: str) -> str:
    for sign in "\\()":
        text = text.replace(sign, "\\" + sign)
    return text.encode("cp1252").decode("latin-1")


def make_zip(members: Mapping[str, str | bytes], *, stored: Sequence[str] = ()) -> bytes:
    """A zip file of the members, those in `stored` without compression."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return data.getvalue()


def make_tar(members: Mapping[str, str | bytes], *, mode: str = "w") -> bytes:
    """A tar file of the members; `mode` "w:gz" compresses it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            raw = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
    return data.getvalue()


def paragraph(text: str, *, style: str = "", list_id: int = 0, level: int = 0) -> str:
    """A paragraph of a Word file."""
    numbered = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>'
    properties = f'<w:pStyle w:val="{style}"/>' * bool(style) + numbered * bool(list_id)
    inner = text if text.startswith("<") else f'<w:t xml:space="preserve">{text}</w:t>'
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r>{inner}</w:r></w:p>"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table of a Word file; a cell is text, or XML of its own."""
    shown = ""
    for row in rows:
        cells = (cell if cell.startswith("<w:") else paragraph(cell) for cell in row)
        shown += "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"
    return f"<w:tbl>{shown}</w:tbl>"


def make_docx(body: str, parts: Mapping[str, str] | None = None, *, title: str = "") -> bytes:
    """A Word file around the XML of its body; `parts` adds or replaces others under word/."""
    mc = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    space = f'xmlns:w="{WORD}" xmlns:mc="{mc}"'
    core = (
        '<cp:coreProperties xmlns:cp="c" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{title}</dc:title></cp:coreProperties>"
    )
    members = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
        "docProps/core.xml": core,
    }
    every = {"styles.xml": STYLES, "numbering.xml": NUMBERING, **(parts or {})}
    for name, content in every.items():
        members[f"word/{name}"] = content.replace("SPACE", space, 1)
    return make_zip(members)


def make_odt(
    body: str, parts: Mapping[str, str] | None = None, *, title: str = "", styles: str = ""
) -> bytes:
    """An OpenDocument text around the XML of its body; ``styles`` are its own, ``parts`` others."""
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    names = ("office", "text", "table", "style", "meta")
    space = " ".join(f'xmlns:{name}="{oasis}:{name}:1.0"' for name in names)
    space += f' xmlns:draw="{oasis}:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    meta = f"<dc:title>{title}</dc:title><meta:initial-creator>Ann Lee</meta:initial-creator>"
    members = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"<office:document-content {space}><office:automatic-styles>{styles}"
        f"</office:automatic-styles><office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>",
        "styles.xml": f"<office:document-styles {space}>{OUTLINE}</office:document-styles>",
        "meta.xml": f"<office:document-meta {space}><office:meta>{meta}</office:meta>"
        "</office:document-meta>",
        **(parts or {}),
    }
    return make_zip(members, stored=["mimetype"])


OUTLINE = """<text:outline-style style:name="Outline">
<text:outline-level-style text:level="1" style:num-format="1"/>
<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>
<text:outline-level-style text:level="3" style:num-format=""/>
</text:outline-style>
<style:style style:name="Heading" style:display-name="Title" style:family="paragraph"/>"""
STYLES = """<w:styles SPACE>
<w:style w:styleId="Title"><w:name w:val="Title"/></w:style>
<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style>
<w:style w:styleId="Clause"><w:name w:val="Clause"/><w:basedOn w:val="H2"/>
<w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="3"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="Article"><w:name w:val="Article"/><w:basedOn w:val="H1"/>
<w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>
</w:styles>"""
NUMBERING = """<w:numbering SPACE>
<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>
<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/>
<w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%1)"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:numFmt w:val="upperRoman"/>
<w:lvlText w:val="Article %1."/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="decimal"/>
<w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="3"><w:abstractNumId w:val="2"/></w:num>
</w:numbering>"""


def make_epub(
    chapters: Mapping[str, str],
    *,
    title: str = "",
    contents: Mapping[str, str] | None = None,
    ncx: bool = False,
    extra: Mapping[str, str | bytes] | None = None,
    side: Sequence[str] = (),
) -> bytes:
    """A book: file name -> the XHTML of its body; `contents` names files, `side` is not linear."""
    items = "".join(
        f'<item id="c{n}" href="text/{name}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(chapters)
    )
    spine = "".join(
        f'<itemref idref="c{n}"{" linear=" + chr(34) + "no" + chr(34) if name in side else ""}/>'
        for n, name in enumerate(chapters)
    )
    listed = contents or {}
    if ncx:
        items += '<item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        points = "".join(
            f"<navPoint><navLabel><text>{label}</text></navLabel>"
            f'<content src="text/{name}"/></navPoint>'
            for name, label in listed.items()
        )
        doctype = '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "ncx.dtd">'
        toc = {"OEBPS/toc.ncx": f"{doctype}<ncx><navMap>{points}</navMap></ncx>"}
    else:
        media = "application/xhtml+xml"
        items += f'<item id="nav" href="nav.xhtml" media-type="{media}" properties="nav"/>'
        links = "".join(
            f'<li><a href="text/{name}">{label}</a></li>' for name, label in listed.items()
        )
        page = f"<html><body><nav><ol>{links}</ol></nav></body></html>"
        toc = {"OEBPS/nav.xhtml": page}
    package = (
        '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>{title}</dc:title></metadata><manifest>{items}"
        '<item id="i" href="cover.png" media-type="image/png"/></manifest>'
        f'<spine toc="toc">{spine}</spine></package>'
    )
    pages = {
        f"OEBPS/text/{name}": f"<html><head><title>x</title></head><body>{body}</body></html>"
        for name, body in chapters.items()
    }
    container = '<container><rootfiles><rootfile full-path="OEBPS/p.opf"/></rootfiles></container>'
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": container,
        "OEBPS/p.opf": package,
        **toc,
        **pages,
        **(extra or {}),
    }
    return make_zip(members, stored=["mimetype"])


def make_xlsx(sheets: dict[str, list[list[str | float]]]) -> bytes:
    """A workbook with the rows of each sheet by its name; texts stand in the cells themselves."""

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    numbers = range(1, len(sheets) + 1)
    listed = "".join(
        f'<sheet name="{name}" sheetId="{number}" r:id="rId{number}"/>'
        for number, name in zip(numbers, sheets, strict=True)
    )
    targets = "".join(
        f'<Relationship Id="rId{number}" Type="{relations}/worksheet" '
        f'Target="worksheets/sheet{number}.xml"/>'
        for number in numbers
    )
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" '
        f'ContentType="{kinds}.worksheet+xml"/>'
        for number in numbers
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f"{parts}</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{relations}/officeDocument" Target="xl/workbook.xml"/>'
        "</Relationships>",
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}">'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f"{targets}</Relationships>",
    }
    for number, rows in zip(numbers, sheets.values(), strict=True):
        lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        sheet = f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
        members[f"xl/worksheets/sheet{number}.xml"] = sheet
    return make_zip(members)
