"""Texts for a model to repeat, to see which of its heads attend to the source of a copy. Written for this purpose.

Each repeats similar phrases, so that only the context distinguishes a token's earlier occurrences.
"""

from __future__ import annotations

REPEAT = "Repeat the following text word for word, with nothing before it and nothing after it.\n\n{text}"

TEXTS = (
    "The north gate opens at six in the morning and closes at nine in the evening. The south gate opens at seven "
    "in the morning and closes at ten in the evening. The east gate opens at eight in the morning, but only on "
    "market days, and closes when the last cart has left. The west gate has not been opened since the bridge "
    "behind it was closed.",
    "Order 4411 holds two boxes of green tea, one box of black tea and three jars of honey. Order 4412 holds one "
    "box of green tea, two boxes of black tea and three jars of plum jam. Order 4413 holds three boxes of white "
    "tea and no honey at all. Order 4414 is a copy of order 4411, with the honey left out and the plum jam put in.",
    "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return "
    "area(width, height) * depth\n\n\ndef surface(width, height, depth):\n    front = area(width, height)\n    "
    "side = area(depth, height)\n    top = area(width, depth)\n    return 2 * (front + side + top)\n",
    "The committee met on Monday and agreed on the budget. The committee met on Tuesday and agreed on nothing. On "
    "Wednesday the chair asked the committee to agree on the budget again, because the budget it had agreed on was "
    "last year's. On Thursday the committee agreed that the chair was right, and on Friday it agreed on the new "
    "budget.",
    "A lead bell sounds dull, a brass bell sounds bright and a glass bell sounds for a moment only. If you strike "
    "the lead bell with a brass hammer it still sounds dull. If you strike the brass bell with a lead hammer it "
    "sounds less bright. If you strike the glass bell with any hammer, it sounds once, and then there is no glass "
    "bell.",
    "Name: Maren Holt. Room: 214. Phone: 5520. Team: archives.\nName: Jonas Reth. Room: 215. Phone: 5521. Team: "
    "archives.\nName: Ilka Brandt. Room: 214. Phone: 5530. Team: printing.\nName: Tomas Reth. Room: 218. Phone: "
    "5531. Team: printing.\nName: Ada Holt. Room: 219. Phone: 5540. Team: bindery.",
    "To change the filter, switch the pump off, open the upper valve, take out the old filter and put in the new "
    "filter. To change the seal, switch the pump off, close the upper valve, open the lower valve, take out the "
    "old seal and put in the new seal. Never open the lower valve while the pump is on, and never change the seal "
    "before the filter.",
    "When the river is low, the ferry crosses at the stone landing. When the river is high, the ferry crosses at "
    "the wooden landing. When the river is very high, the ferry does not cross, and whoever waits at the wooden "
    "landing is told to walk to the bridge. Whoever waits at the stone landing is told nothing, because nobody can "
    "get there.",
    "Members may borrow five books for four weeks. Guests may borrow two books for two weeks. Members may extend a "
    "loan twice, by two weeks each time; guests may extend a loan once, by one week. A book that another member "
    "has asked for cannot be extended. A book that a guest has asked for can be extended by a member, but not by a "
    "guest.",
    "My grandmother kept three clocks in the kitchen. The first clock was right in summer, the second clock was "
    "right in winter, and the third clock had never been right. When the first clock and the second clock "
    "disagreed, she looked at the third clock, added what was missing, and said that the time was always somewhere "
    "between the clocks.",
)
