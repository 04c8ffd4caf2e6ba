#!/usr/bin/env python3
"""Writes the man pages: one per command, printed by the program, with a part on the formats that it
reads and writes, and partita-formats(5), made of docs/formats.md.

usage: make_man.py PROGRAM FORMATS.md FOLDER
"""
import pathlib
import re
import subprocess
import sys


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def inline(text):
    """Markdown within a line: code and strong words in bold, links by their words."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(`[^`]*`|\*\*[^*]*\*\*)", text)
    out = ""
    for part in parts:
        if part.startswith(("`", "**")) and len(part) > 2:
            out += "\\fB" + escaped(part.strip("`*")).removeprefix("\\&") + "\\fR"
        else:
            out += escaped(part).removeprefix("\\&")
    return "\\&" + out if out[:1] in (".", "'") else out


def cells(line):
    inner = line.strip().strip("|").replace("\\|", "\0")
    return [cell.strip().replace("\0", "|") for cell in inner.split("|")]


def table_roff(rows):
    """The first column as a heading, the others, with what they are, under it."""
    head, body = rows[0], rows[2:]
    text = ""
    for row in body:
        said = []
        for name, cell in zip(head[1:], row[1:]):
            if cell:
                plain = name == "" or len(head) == 2
                said.append(inline(cell) if plain else f"{inline(name)}: {inline(cell)}")
        text += f".TP\n{inline(row[0]) or 'value'}\n" + "; ".join(said or ["\\&"]) + ".\n"
    return text


def roff(markdown):
    """A document, from its first section on."""
    text, lines, i = "", markdown.splitlines(), 0
    paragraph = []

    def flush():
        nonlocal text
        if paragraph:
            text += ".PP\n" + "\n".join(inline(line) for line in paragraph) + "\n"
            paragraph.clear()

    while i < len(lines):
        line = lines[i]
        if line.startswith("```") or line.startswith("    "):
            flush()
            fenced, block = line.startswith("```"), []
            i += fenced
            while i < len(lines) and (lines[i][:3] != "```" if fenced else lines[i][:4] == "    "):
                block.append(lines[i] if fenced else lines[i][4:])
                i += 1
            block = "".join(escaped(one) + "\n" for one in block)
            text += f".PP\n.RS 4\n.nf\n{block}.fi\n.RE\n"
            i += fenced
            continue
        heading = re.match(r"(#+) (.*)", line)
        if heading:
            flush()
            if len(heading[1]) > 1:
                kind = ".SH" if len(heading[1]) == 2 else ".SS"
                title = heading[2].upper() if kind == ".SH" else heading[2]
                text += f'{kind} "{escaped(title)}"\n'
        elif line.startswith("|"):
            flush()
            rows = []
            while i < len(lines) and lines[i].startswith("|"):
                rows.append(cells(lines[i]))
                i += 1
            text += table_roff(rows)
            continue
        elif line.startswith("- "):
            flush()
            text += f".IP \\(bu 2\n{inline(line[2:])}\n"
        elif line.strip() == "":
            flush()
        elif lines[i - 1].strip() and line.startswith("  ") and not paragraph:
            text += inline(line.strip()) + "\n"  # goes on with a point of a list
        else:
            paragraph.append(line.strip())
        i += 1
    flush()
    return text


def formats(markdown):
    """The rows of the table of formats: file, form, who writes it, who reads it. `the same` is as
    the row above."""
    rows, above = [], None
    for line in markdown.splitlines():
        row = cells(line)
        if not line.startswith("| [") or len(row) != 4:
            continue
        row = [above[k] if cell == "the same" else cell for k, cell in enumerate(row)]
        rows.append(row)
        above = row
    return rows


def concerns(cell, command):
    """Whether a cell names the command: `plan --fleet` is plan, `power plan` is not, and `run`
    after `kernels profile` is `kernels run`."""
    family = ""
    for said in re.findall(r"`([^`]*)`", cell):
        words = said.split(" -")[0].split()
        if len(words) > 1:
            family = words[0]
        elif family:
            words.insert(0, family)
        if words == command.split():
            return True
    return False


def formats_part(rows, command):
    text = ""
    for file, form, writer, reader in rows:
        said = [word for word, cell in (("reads", reader), ("writes", writer))
                if concerns(cell, command)]
        if said:
            text += f".TP\n{inline(file)}\n{inline(form)}; {' and '.join(said)} it.\n"
    head = ".SH FORMATS\nDescribed in \\fBpartita\\-formats\\fR(5).\n"
    return head + text if text else ""


def main(program, source, folder):
    markdown = pathlib.Path(source).read_text(encoding="utf-8")
    rows = formats(markdown)
    first, fifth = pathlib.Path(folder, "man1"), pathlib.Path(folder, "man5")
    fifth.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "man", "--pages", str(first)], check=True)
    (first / "partita.1").chmod(0o644)
    for page in sorted(first.glob("partita-*.1")):
        page.chmod(0o644)
        part = formats_part(rows, page.stem.removeprefix("partita-").replace("-", " "))
        if part:
            text = page.read_text(encoding="utf-8")
            text = text.replace(".SH SEE ALSO\n", part + ".SH SEE ALSO\n")
            page.write_text(text, encoding="utf-8")
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    head = (f'.TH PARTITA\\-FORMATS 5 "" "{escaped(version.stdout.strip())}" "File Formats"\n'
            ".SH NAME\npartita\\-formats \\- what partita reads and writes\n.SH DESCRIPTION\n")
    (fifth / "partita-formats.5").write_text(head + roff(markdown), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
