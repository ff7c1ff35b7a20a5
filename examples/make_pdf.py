"""Writes documents/warranty-and-returns.pdf, the sample PDF: two pages, the same bytes on every run.

python examples/make_pdf.py        (needs fpdf2, part of the dev extra)
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF

TITLE = "Warranty and returns"
PAGES = [
    [
        (
            "Warranty",
            "Every Tidewater sensor has a warranty of 36 months from the date of delivery. Batteries and probes are "
            "wear parts and have a warranty of 12 months. The warranty ends when the housing has been opened by "
            "anyone but a certified workshop.",
        ),
        (
            "What the warranty covers",
            "We repair or replace a device that fails in normal use. Damage by lightning, salt water above the "
            "rated depth or the wrong power supply is not covered. A replaced device keeps the remaining warranty "
            "of the first one, but never less than 6 months.",
        ),
        (
            "Calibration",
            "Sensors are calibrated before delivery, and the certificate is in the box. We recommend a new "
            "calibration every 18 months. A calibration costs 95 euros and takes 8 working days.",
        ),
    ],
    [
        (
            "Returning a device",
            "Ask for a return number at returns@tidewater.example before you send anything. Parcels without a return "
            "number are not accepted. Pack the device in its original box if you still have it. We pay the postage "
            "for returns under warranty.",
        ),
        (
            "Repair times",
            "A repair takes 10 working days on average. Customers with a service contract get a loan device within "
            "2 working days. Repairs outside the warranty start only after you have accepted our quote.",
        ),
        (
            "Right of withdrawal",
            "Unused devices can be returned within 30 days of delivery for a full refund. The refund is paid within "
            "14 days after the device has reached us.",
        ),
    ],
]


def main() -> None:
    pdf = FPDF(format="A4")
    pdf.set_title(TITLE)
    pdf.set_creation_date(datetime(2026, 1, 1, tzinfo=UTC))
    pdf.set_margin(25)
    for number, sections in enumerate(PAGES):
        pdf.add_page()
        if number == 0:
            pdf.set_font("Helvetica", "B", 20)
            pdf.multi_cell(0, 12, TITLE, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(4)
        for heading, text in sections:
            pdf.set_font("Helvetica", "B", 13)
            pdf.multi_cell(0, 9, heading, new_x="LMARGIN", new_y="NEXT")
            pdf.set_font("Helvetica", size=11)
            pdf.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(4)
    pdf.output(str(Path(__file__).parent / "documents" / "warranty-and-returns.pdf"))


if __name__ == "__main__":
    main()
