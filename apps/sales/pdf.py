"""PDF documents for quotes and invoices. The same content always gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.enums import TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

INK, FAINT, LINE = colors.HexColor("#1b2230"), colors.HexColor("#5a6478"), colors.HexColor("#d5dae3")
WIDTH = A4[0] - 36 * mm - 12  # a frame pads its sides by 6 points

_BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=9, leading=12.5, textColor=INK)
_SMALL = ParagraphStyle("small", parent=_BODY, fontSize=7.5, leading=10, textColor=FAINT)
_FINE = ParagraphStyle("fine", parent=_BODY, fontSize=7.5, leading=10)
_MONO = ParagraphStyle("mono", parent=_SMALL, fontName="Courier", fontSize=7, leading=9.5, wordWrap="CJK")
_TITLE = ParagraphStyle("title", parent=_BODY, fontName="Helvetica-Bold", fontSize=17, leading=22)
_HEAD = ParagraphStyle(
    "head", parent=_BODY, fontName="Helvetica-Bold", fontSize=11, leading=15, spaceBefore=9, spaceAfter=4
)


class PdfDocument:
    """A PDF document under construction. Added text is escaped."""

    def __init__(self, *, title: str, footer: str) -> None:
        self.title, self.footer = title, footer
        self.parts: list[Flowable] = [Paragraph(escape(title), _TITLE), Spacer(1, 3 * mm)]

    def heading(self, text: str) -> None:
        """Add a section heading."""
        self.parts.append(Paragraph(escape(text), _HEAD))

    def text(self, text: str, *, small: bool = False) -> None:
        """Add a paragraph."""
        self.parts.append(Paragraph(escape(text), _SMALL if small else _BODY))

    def code(self, text: str) -> None:
        """Add a paragraph in a fixed-width font."""
        self.parts.append(Paragraph(escape(text), _MONO))

    def definitions(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add a table of names and values."""
        cells = [[Paragraph(escape(name), _SMALL), Paragraph(escape(value), _BODY)] for name, value in rows]
        table = Table(cells, colWidths=[38 * mm, WIDTH - 38 * mm])
        table.setStyle(
            TableStyle(
                [
                    ("VALIGN", (0, 0), (-1, -1), "TOP"),
                    ("TOPPADDING", (0, 0), (-1, -1), 1),
                    ("LEFTPADDING", (0, 0), (-1, -1), 0),
                ]
            )
        )
        self.parts.append(table)

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        widths: Sequence[float],
        right: int = 1,
        fine: bool = False,
    ) -> None:
        """Add a table.

        `widths`: shares of the page width. `right`: the number of right-aligned columns at the end. `fine`: small type.
        """
        first_right, style_of_rows = len(head) - right, _FINE if fine else _BODY

        def line(cells: Sequence[str], style: ParagraphStyle) -> list[Paragraph]:
            return [
                Paragraph(
                    escape(cell), ParagraphStyle("r", parent=style, alignment=TA_RIGHT) if i >= first_right else style
                )
                for i, cell in enumerate(cells)
            ]

        table = Table(
            [line(head, _SMALL), *(line(row, style_of_rows) for row in rows)],
            colWidths=[share * WIDTH for share in widths],
            repeatRows=1,
        )
        table.setStyle(
            TableStyle(
                [
                    ("LINEBELOW", (0, 0), (-1, 0), 0.8, INK),
                    ("LINEBELOW", (0, 1), (-1, -1), 0.4, LINE),
                    ("VALIGN", (0, 0), (-1, -1), "TOP"),
                    ("LEFTPADDING", (0, 0), (-1, -1), 2),
                    ("RIGHTPADDING", (0, 0), (-1, -1), 2),
                ]
            )
        )
        self.parts += [table, Spacer(1, 2 * mm)]

    def print(self) -> bytes:
        """Return the bytes of the PDF."""
        buffer = io.BytesIO()
        document = SimpleDocTemplate(
            buffer,
            pagesize=A4,
            leftMargin=18 * mm,
            rightMargin=18 * mm,
            topMargin=18 * mm,
            bottomMargin=20 * mm,
            title=self.title,
            author="Takt",
            invariant=1,
        )
        document.build(self.parts, onFirstPage=self._foot, onLaterPages=self._foot)
        return buffer.getvalue()

    def _foot(self, canvas: Any, document: Any) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 7)
        canvas.setFillColor(FAINT)
        canvas.drawString(18 * mm, 11 * mm, self.footer)
        canvas.drawRightString(A4[0] - 18 * mm, 11 * mm, f"Page {document.page}")
        canvas.restoreState()
