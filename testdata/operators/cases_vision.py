"""Vision transformers of torchvision, skip connections, and masks and indices that a graph computes."""

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.models.vision_transformer import VisionTransformer

from cases_layers import S
from cases_sequences import ClassToken, attend, tail
from export import Fn, f32


class Distilled(ClassToken):
    """A class token and a distillation token, each with a head, as DeiT has them."""

    def __init__(self):
        super().__init__()
        self.second, self.position = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(0.02 * torch.randn(1, 6, 4))
        self.other = nn.Linear(4, 2)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        n = x.shape[0]
        x = self.block(torch.cat((self.token.expand(n, -1, -1), self.second.expand(n, -1, -1), x), 1) + self.position)
        return (self.head(x[:, 0]) + self.other(x[:, 1])) / 2


class Crop(nn.Module):
    """A U-Net without padding, whose skip connection is cropped by the shapes."""

    def __init__(self):
        super().__init__()
        self.down, self.deep, self.up, self.last = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 2), nn.ConvTranspose2d(3, 2, 2, 2), nn.Conv2d(4, 1, 3)

    def forward(self, x):
        a = torch.tanh(self.down(x))
        b = self.up(torch.tanh(self.deep(F.max_pool2d(a, 2))))
        top, left = (a.size(2) - b.size(2)) // 2, (a.size(3) - b.size(3)) // 2
        a = a[:, :, top:top + b.size(2), left:left + b.size(3)]
        return self.last(torch.cat([a, b], 1)).flatten(1)


def vision(c):
    def add(name, module, shape=(1, 4, 4), **k):
        c.add("vision-" + name, module, shape, **k)

    vit = partial(VisionTransformer, image_size=4, patch_size=2, num_layers=1, num_heads=1, hidden_dim=4, mlp_dim=3, num_classes=2, norm_layer=partial(nn.LayerNorm, eps=f32(1e-6)))
    swin = partial(SwinTransformer, patch_size=[2, 2], embed_dim=4, num_heads=[1], mlp_ratio=0.75, num_classes=2, norm_layer=partial(nn.LayerNorm, eps=f32(1e-5)))
    gelu = "the √2 of GELU"
    add("torchvision-vit", vit(), (3, 4, 4), inexact=gelu)
    add("torchvision-swin", swin(depths=[2], window_size=[2, 2]), (3, 8, 8), fold=False, inexact=gelu)
    add("torchvision-swin-padded", swin(depths=[2], window_size=[3, 3]), (3, 8, 8), fold=False, inexact=gelu)
    add("distilled", Distilled())
    add("crop", Crop(), (1, 9, 9))

    def masked(name, mask, **k):
        """Attention whose scores a function masks."""
        def forward(m, x):
            q, k, v = m.qkv(x).chunk(3, -1)
            return torch.softmax(mask(q @ k.transpose(1, 2) * 0.5, x), -1) @ v

        c.add("mask-" + name, S(Fn(forward, qkv=nn.Linear(4, 12)), tail(4, -1)), (4, 4), **k)

    inf = float("-inf")
    later = torch.arange(4)[None, :] > torch.arange(4)[:, None]

    def distance():
        i = torch.arange(4)
        return i[None, :] - i[:, None]

    masked("range", lambda s, x: s.masked_fill(distance() > 0, inf))
    masked("window", lambda s, x: s.masked_fill((distance() > 0) | (distance() < -1), inf))
    masked("logical", lambda s, x: s.masked_fill(torch.logical_not(torch.logical_and(distance() <= 0, torch.logical_or(distance() >= -1, distance() == -3))), inf), first=14)
    masked("running-sum", lambda s, x: s.masked_fill((torch.cumsum(torch.ones(4, dtype=torch.long), 0) - 1)[None, :] > torch.arange(4)[:, None], inf))
    masked("distances", lambda s, x: (s - 0.5 * distance().abs().to(s.dtype)).masked_fill(~(distance() <= 0), inf))
    masked("expanded", lambda s, x: s.masked_fill(later.expand(x.shape[0], 4, 4), inf))
    masked("of-all-ones", lambda s, x: s + (1 - torch.ones(x.shape[0], 4, dtype=x.dtype)[:, None, :]) * -10000.0)
    masked("repeated-positions", lambda s, x: s + (1 - (torch.arange(4)[None, None, :].repeat(x.shape[0], 4, 1) <= torch.arange(4)[None, :, None]).to(x.dtype)) * -10000.0)
    masked("filled-zeros", lambda s, x: s + torch.zeros(4, 4, dtype=x.dtype).masked_fill(later, inf), fold=False)
    masked("where", lambda s, x: torch.where(later, torch.tensor(-1e9, dtype=x.dtype), s))
    masked("tril-of-scores", lambda s, x: torch.tril(s), first=14)

    encoder = nn.TransformerEncoderLayer(4, 1, 3, 0.1, batch_first=True, layer_norm_eps=f32(1e-5))
    cut = nn.Transformer.generate_square_subsequent_mask(4)
    c.add("mask-encoder-unfolded", S(Fn(lambda m, x: m.e(x, src_mask=cut.to(x.dtype)), e=encoder), tail(4, -1)), (4, 4), fold=False)
    decoder = nn.TransformerDecoderLayer(4, 1, 3, 0.1, batch_first=True, layer_norm_eps=f32(1e-5))
    c.add("mask-decoder", S(Fn(lambda m, x: m.d(x, torch.tanh(x), tgt_mask=cut.to(x.dtype)), d=decoder), tail(4, -1)), (4, 4))

    def bucket(m, x):  # relative positions as T5 has them
        n = -distance()
        far = 1 + (torch.log(n.abs().float().clamp(min=1)) / math.log(3)).long()
        at = (n < 0).long() * 2 + torch.where(n.abs() < 1, n.abs(), torch.min(far, torch.full_like(far, 1)))
        return x @ F.embedding(at, m.table)[..., 0]

    c.add("index-buckets", S(Fn(bucket, table=torch.randn(4, 1)), nn.Linear(4, 2)), (4,))
    c.add("index-positions", S(Fn(lambda m, x: x + F.embedding(torch.arange(x.shape[1]).expand(x.shape[0], -1), m.p), p=torch.randn(5, 2)), tail(2)), (3, 2))
    c.add("index-repeated-positions", S(Fn(lambda m, x: x + F.embedding(torch.arange(x.shape[1]).unsqueeze(0).repeat(x.shape[0], 1), m.p), p=torch.randn(5, 2)), tail(2)), (3, 2), fold=False)

    def triangle(m, x):
        z = m.l(x).view(-1, 3, 2)
        z, at = z @ z.transpose(1, 2), torch.triu_indices(3, 3)
        return z[:, at[0], at[1]]

    c.add("index-upper-triangle", S(Fn(triangle, l=nn.Linear(2, 6)), nn.Linear(6, 2)), (2,))

    def symmetric(m, x):
        y, at = m.l(x), torch.triu_indices(3, 3, 1)
        z = torch.zeros(y.shape[0], 3, 3, dtype=y.dtype)
        z[:, at[0], at[1]] = y
        return torch.tanh(z - z.transpose(1, 2)).flatten(1)

    c.add("index-put-triangle", S(Fn(symmetric, l=nn.Linear(2, 3)), nn.Linear(9, 2)), (2,))

    def seen(m, x):
        z = m.l(x).view(-1, 3, 2)
        keep = torch.ones(z.shape[0], 3, dtype=torch.bool)
        keep[:, 1] = False
        return (z * keep.unsqueeze(-1).to(z.dtype)).sum(1)

    c.add("index-put-mask", S(Fn(seen, l=nn.Linear(2, 6)), nn.Linear(2, 2)), (2,))
