"""The two peers' algorithms in arrays: the same classes, a hundred times faster.

Twenty draws of six tables would take the peers themselves an hour. They are run on a part of the first draw
of every table, in all settings; a twin that made other classes than its peer there is a missed limit.
What the peers' own programs do, their oddities included, is what is written here.
"""

import numpy as np


def mondrian(points, values, k, ell, is_category):
    """anonypyx: cuts where the normalized span is largest, numbers at the median, categories into halves."""
    spans = [_span(points[:, column], each) for column, each in enumerate(is_category)]
    waiting, done = [np.arange(len(points))], []
    while waiting:
        rows = waiting.pop()
        widths = [
            _span(points[rows, column], each) / spans[column] for column, each in enumerate(is_category)
        ]
        for column in np.argsort(-np.array(widths), kind="stable").tolist():
            own = points[rows, column]
            is_left = _first_half(own) if is_category[column] else own < np.median(own)
            parts = rows[is_left], rows[~is_left]
            if all(len(part) >= k and len(np.unique(values[part])) >= ell for part in parts):
                waiting.extend(parts)
                break
        else:
            done.append(rows)
    class_of = np.empty(len(points), dtype=np.int64)
    for number, rows in enumerate(done):
        class_of[rows] = number
    return class_of


def _span(column, is_category):
    return len(np.unique(column)) if is_category else int(column.max() - column.min())


def _first_half(column):
    """Who has one of the values that come first, in the order of the records."""
    values, firsts = np.unique(column, return_index=True)
    by_appearance = values[np.argsort(firsts)]
    return np.isin(column, by_appearance[: len(by_appearance) // 2])


def named_by(class_of, points, sizes, is_category):
    """The positions that classes name: the range of their records, in a column of categories the set."""
    n_classes = int(class_of.max()) + 1
    named = []
    for column, (size, is_set) in enumerate(zip(sizes, is_category, strict=True)):
        table = np.zeros((n_classes, size), dtype=bool)
        table[class_of, points[:, column]] = True
        if not is_set:
            table = np.maximum.accumulate(table, axis=1)
            highs = np.zeros(n_classes, dtype=np.int64)
            np.maximum.at(highs, class_of, points[:, column])
            table &= np.arange(size) <= highs[:, None]
        named.append(table)
    return named


def anjana(points, values, k, ell, suppressed, widths):
    """anjana: the column with the most values goes up a level, until k is reached, then until ell is.

    Classes below k are left out as soon as they hold few enough records; for ell nothing is left out.

    Returns:
        The width of every column's level and which records are shown; None where nothing is found.
    """
    levels = [0] * points.shape[1]
    codes = points.copy()
    shown = np.ones(len(points), dtype=bool)

    def climb(columns):
        """One level more for the column with the most values; False where there is none left."""
        if not columns:
            return False
        chosen = columns[int(np.argmax([len(np.unique(codes[shown, column])) for column in columns]))]
        if levels[chosen] + 1 == len(widths[chosen]):
            columns.remove(chosen)
        else:
            levels[chosen] += 1
            codes[:, chosen] = points[:, chosen] // widths[chosen][levels[chosen]]
        return True

    columns = list(range(points.shape[1]))
    while True:
        _, number, sizes = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        small = sizes < k
        if sizes[small].sum() * 100 / len(points) <= suppressed and not small.all():
            shown = ~small[number.reshape(-1)]
            break
        if not climb(columns):
            return None
    columns = list(range(points.shape[1]))
    while True:
        _, number = np.unique(codes[shown], axis=0, return_inverse=True)
        pairs = np.unique(np.stack([number.reshape(-1), values[shown]], axis=1), axis=0)
        if np.bincount(pairs[:, 0]).min() >= ell:
            return [own[level] for own, level in zip(widths, levels, strict=True)], shown
        if not climb(columns):
            return None
