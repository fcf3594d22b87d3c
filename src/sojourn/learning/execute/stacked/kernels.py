"""Convolutions and norms of many models at once, in Triton; for few channels, where one model alone leaves a GPU idle.

Images lie as [models, examples, height, width, channels], kernels as [models, out, row, column, in]. Each tap of a
kernel is a product of matrices: pixels by channels with channels by new channels. Sums have single precision and always
the same order.

H, W     height and width of x; OH, OW those of y (or of the gradient g of y)
CI, CO   channels of x and of y; CIP, COP the same rounded up to a power of two
K        rows and columns of the convolution's kernel, 1 or 3
BM       pixels of a block
"""

import triton
import triton.language as tl


@triton.jit
def convolve(
    x, w, y, H, W, OH, OW, B, w_model, w_tap, w_x, w_y,
    CI: tl.constexpr, CIP: tl.constexpr, CO: tl.constexpr, COP: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, FLIP: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The convolution y = x * w; with FLIP, for a stride of 1, from the gradient x of its output to that of its input.

    w_tap, w_x and w_y are the strides of w by tap and by the channels of x and of y.
    """
    model = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = pixel < B * OH * OW
    example = pixel // (OH * OW)
    rest = pixel % (OH * OW)
    top = (rest // OW) * STRIDE - K // 2
    left = (rest % OW) * STRIDE - K // 2
    old = tl.arange(0, CIP)
    new = tl.arange(0, COP)
    x += model * B * H * W * CI
    w += model * w_model
    total = tl.zeros((BM, COP), dtype=tl.float32)
    for tap in tl.static_range(K * K):
        down = top + tap // K
        right = left + tap % K
        mask = inside & (down >= 0) & (down < H) & (right >= 0) & (right < W)
        start = ((example * H + down) * W + right) * CI
        if CI == CIP:
            a = tl.load(x + start[:, None] + old[None, :], mask=mask[:, None], other=0.0)
        else:
            a = tl.load(x + start[:, None] + old[None, :], mask=mask[:, None] & (old < CI)[None, :], other=0.0)
        where = (K * K - 1 - tap if FLIP else tap) * w_tap
        b = tl.load(
            w + where + (old * w_x)[:, None] + (new * w_y)[None, :],
            mask=(old < CI)[:, None] & (new < CO)[None, :],
            other=0.0,
        )
        total = tl.dot(a, b, total)
    y += model * B * OH * OW * CO
    where = pixel[:, None] * CO + new[None, :]
    tl.store(y + where, total.to(y.dtype.element_ty), mask=inside[:, None] & (new < CO)[None, :])


@triton.jit
def input_gradient(
    g, w, dx, H, W, OH, OW, B, w_model, w_tap, w_in, w_out,
    CI: tl.constexpr, CIP: tl.constexpr, CO: tl.constexpr, COP: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Gradient of the input for a stride of two or more, one residue of pixels at a time, since
    these share their taps.
    """
    model = tl.program_id(2).to(tl.int64)
    odd_row = tl.program_id(1) // STRIDE
    odd_column = tl.program_id(1) % STRIDE
    high = (H - odd_row + STRIDE - 1) // STRIDE
    wide = (W - odd_column + STRIDE - 1) // STRIDE
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = pixel < B * high * wide
    example = pixel // (high * wide)
    rest = pixel % (high * wide)
    down = (rest // wide) * STRIDE + odd_row
    right = (rest % wide) * STRIDE + odd_column
    out = tl.arange(0, COP)
    into = tl.arange(0, CIP)
    g += model * B * OH * OW * CO
    w += model * w_model
    total = tl.zeros((BM, CIP), dtype=tl.float32)
    for row in tl.static_range(K):
        if (odd_row + K // 2 - row + STRIDE) % STRIDE == 0:
            for column in tl.static_range(K):
                if (odd_column + K // 2 - column + STRIDE) % STRIDE == 0:
                    oh = (down + K // 2 - row + STRIDE) // STRIDE - 1
                    ow = (right + K // 2 - column + STRIDE) // STRIDE - 1
                    mask = inside & (oh >= 0) & (oh < OH) & (ow >= 0) & (ow < OW)
                    start = ((example * OH + oh) * OW + ow) * CO
                    a = tl.load(g + start[:, None] + out[None, :], mask=mask[:, None] & (out < CO)[None, :], other=0.0)
                    place = (row * K + column) * w_tap + (out * w_out)[:, None] + (into * w_in)[None, :]
                    b = tl.load(w + place, mask=(out < CO)[:, None] & (into < CI)[None, :], other=0.0)
                    total = tl.dot(a, b, total)
    dx += model * B * H * W * CI
    where = ((example * H + down) * W + right)[:, None] * CI + into[None, :]
    tl.store(dx + where, total.to(dx.dtype.element_ty), mask=inside[:, None] & (into < CI)[None, :])


@triton.jit
def kernel_gradient(
    x, g, parts, H, W, OH, OW, B, PIECES,
    CI: tl.constexpr, CIP: tl.constexpr, CO: tl.constexpr, COP: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Gradient of one row of a kernel over a piece of the pixels: parts [models, pieces, row, column, in, out]."""
    piece = tl.program_id(0)
    row = tl.program_id(1)
    model = tl.program_id(2).to(tl.int64)
    blocks = tl.cdiv(tl.cdiv(B * OH * OW, BM), PIECES)
    old = tl.arange(0, CIP)
    new = tl.arange(0, COP)
    x += model * B * H * W * CI
    g += model * B * OH * OW * CO
    first = tl.zeros((CIP, COP), dtype=tl.float32)
    second = tl.zeros((CIP, COP), dtype=tl.float32)
    third = tl.zeros((CIP, COP), dtype=tl.float32)
    for block in range(piece * blocks, (piece + 1) * blocks):
        pixel = block * BM + tl.arange(0, BM)
        inside = pixel < B * OH * OW
        example = pixel // (OH * OW)
        rest = pixel % (OH * OW)
        down = (rest // OW) * STRIDE - K // 2 + row
        left = (rest % OW) * STRIDE - K // 2
        inside_row = inside & (down >= 0) & (down < H)
        start = ((example * H + down) * W + left) * CI
        slope = tl.load(g + pixel[:, None] * CO + new[None, :], mask=inside[:, None] & (new < CO)[None, :], other=0.0)
        for column in tl.static_range(K):
            mask = inside_row & (left + column >= 0) & (left + column < W)
            at = x + (start + column * CI)[:, None] + old[None, :]
            if CI == CIP:
                a = tl.load(at, mask=mask[:, None], other=0.0)
            else:
                a = tl.load(at, mask=mask[:, None] & (old < CI)[None, :], other=0.0)
            if column == 0:
                first = tl.dot(tl.trans(a), slope, first)
            elif column == 1:
                second = tl.dot(tl.trans(a), slope, second)
            else:
                third = tl.dot(tl.trans(a), slope, third)
    parts += ((model * PIECES + piece) * K + row) * K * CI * CO
    place = old[:, None] * CO + new[None, :]
    mask = (old < CI)[:, None] & (new < CO)[None, :]
    tl.store(parts + place, first, mask=mask)
    if K == 3:
        tl.store(parts + CI * CO + place, second, mask=mask)
        tl.store(parts + 2 * CI * CO + place, third, mask=mask)


@triton.jit
def _of_groups(x, G: tl.constexpr, C: tl.constexpr):
    """Return sums over the channels of each group, repeated for every channel of it."""
    sums = tl.sum(tl.reshape(x, (G, C // G)), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None], (G, C // G)), (C,))


@triton.jit
def normalise(
    x, weight, bias, around, y, means, scales, P, B, w_model, eps,
    C: tl.constexpr, G: tl.constexpr, PP: tl.constexpr, AROUND: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """GroupNorm of one example of P pixels; then the shortcut is added, and ReLU is applied."""
    example = tl.program_id(0)
    model = tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, C)
    pixel = tl.arange(0, PP)
    where = (model * B + example) * P * C + pixel[:, None] * C + channel[None, :]
    inside = (pixel < P)[:, None]
    values = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
    many = P * (C // G)
    mean = _of_groups(tl.sum(values, axis=0), G, C) / many
    away = tl.where(inside, values - mean[None, :], 0.0)
    scale = tl.rsqrt(_of_groups(tl.sum(away * away, axis=0), G, C) / many + eps)
    factor = tl.load(weight + model * w_model + channel).to(tl.float32) * scale
    made = away * factor[None, :] + tl.load(bias + model * w_model + channel).to(tl.float32)[None, :]
    if AROUND:
        made += tl.load(around + where, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        made = tl.maximum(made, 0.0)
    tl.store(y + where, made.to(y.dtype.element_ty), mask=inside)
    tl.store(means + (model * B + example) * C + channel, mean)
    tl.store(scales + (model * B + example) * C + channel, scale)


@triton.jit
def normalise_back(
    g, x, y, weight, means, scales, dx, around, dweight, dbias, P, B, w_model,
    C: tl.constexpr, G: tl.constexpr, PP: tl.constexpr, AROUND: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Gradients of `normalise`; those of weight and bias are separate for each example."""
    example = tl.program_id(0)
    model = tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, C)
    pixel = tl.arange(0, PP)
    row = (model * B + example) * C + channel
    where = (model * B + example) * P * C + pixel[:, None] * C + channel[None, :]
    inside = (pixel < P)[:, None]
    slope = tl.load(g + where, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        slope = tl.where(tl.load(y + where, mask=inside, other=0.0).to(tl.float32) > 0, slope, 0.0)
    if AROUND:
        tl.store(around + where, slope.to(around.dtype.element_ty), mask=inside)
    mean = tl.load(means + row)
    scale = tl.load(scales + row)
    even = (tl.load(x + where, mask=inside, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]
    of_bias = tl.sum(slope, axis=0)
    of_weight = tl.sum(slope * even, axis=0)
    tl.store(dbias + row, of_bias)
    tl.store(dweight + row, of_weight)
    factor = tl.load(weight + model * w_model + channel).to(tl.float32)
    many = P * (C // G)
    flat = _of_groups(of_bias * factor, G, C) / many
    tilt = _of_groups(of_weight * factor, G, C) / many
    made = (slope * factor[None, :] - flat[None, :] - even * tilt[None, :]) * scale[None, :]
    tl.store(dx + where, made.to(dx.dtype.element_ty), mask=inside)
