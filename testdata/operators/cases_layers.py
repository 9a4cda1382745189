"""Layers: activations, norms, pooling, convolutions and the ways they are put together."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm, weight_norm
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.ops import misc

from export import Fn, f32

S = nn.Sequential


def mlp(act, inputs=3, hidden=4, outputs=2, after=None):
    return S(nn.Linear(inputs, hidden), act, nn.Linear(after or hidden, outputs))


def of(function):
    """An activation from a function."""
    return Fn(lambda m, x: function(x))


def activations(c):
    def add(name, act, **k):
        c.add("activation-" + name, mlp(act), (3,), **k)

    add("relu", nn.ReLU())
    add("relu-squared", of(lambda x: F.relu(x) ** 2))
    add("relu6", nn.ReLU6())
    add("hardtanh", nn.Hardtanh(-0.5, 1.5))
    add("leakyrelu", nn.LeakyReLU(f32(0.01)))
    add("rrelu", nn.RReLU(0.25, 0.5))
    add("elu", nn.ELU(f32(0.7)))
    add("selu", nn.SELU(), rounded="alpha and gamma")
    add("celu", nn.CELU(0.5), first=12)
    add("sigmoid", nn.Sigmoid())
    add("tanh", nn.Tanh())
    add("hardsigmoid", nn.Hardsigmoid(), rounded="alpha 1/6")
    add("hardswish", nn.Hardswish(), inexact="1/6")
    add("softplus", nn.Softplus())
    add("softplus-beta", of(lambda x: F.softplus(2 * x) / 2))
    add("softsign", nn.Softsign())
    add("silu", nn.SiLU())
    add("mish", nn.Mish())
    add("logsigmoid", nn.LogSigmoid())
    add("gelu", nn.GELU(), inexact="√2")
    add("gelu-tanh", nn.GELU(approximate="tanh"), inexact="√(2/π)")
    add("quick-gelu", of(lambda x: x * torch.sigmoid(1.75 * x)))
    add("hardshrink", nn.Hardshrink(0.25))
    add("softshrink", nn.Softshrink(0.25))
    add("tanhshrink", nn.Tanhshrink())
    add("softmin", nn.Softmin(1))
    add("softmax", nn.Softmax(-1))
    add("logsoftmax", nn.LogSoftmax(-1))
    add("exp", of(torch.exp))
    add("erf", of(torch.erf))
    add("sin", of(torch.sin))
    add("cos", of(torch.cos))
    add("tan", of(lambda x: torch.tan(x / 4)))
    add("atan", of(torch.atan))
    add("asin-acos", of(lambda x: torch.asin(torch.tanh(x)) * torch.acos(0.5 * torch.tanh(x))))
    add("log-cosh", of(lambda x: torch.abs(x) + F.softplus(-2 * torch.abs(x))))
    add("log1p", of(lambda x: torch.sign(x) * torch.log1p(torch.abs(x))))
    add("sqrt-reciprocal", of(lambda x: torch.sqrt(1 + x * x) + 1 / (2 + x * x) + torch.rsqrt(x * x + 0.5)))
    add("pow", of(lambda x: torch.pow(torch.abs(x) + 0.5, 1.5) + x**3))
    add("floor-ceil-round", of(lambda x: x + torch.floor(x) + torch.ceil(2 * x) - torch.round(3 * x)))
    add("clamp", of(lambda x: torch.clamp(x, min=-0.5) + torch.clamp(x, max=0.75)), first=12)
    add("minimum-maximum", of(lambda x: torch.maximum(x, 0.5 * x) - torch.minimum(x, x.flip(1))))
    add("where", of(lambda x: torch.where(x > 0.25, x * x, 0.5 * x)))
    add("comparisons", of(lambda x: x * (x < 0.5) + 2 * x * (x >= 0.5).to(x.dtype)))
    add("logaddexp", of(lambda x: torch.log(torch.exp(x) + torch.exp(-2 * x))))
    add("straight-through", of(lambda x: (x > 0).to(x.dtype) + torch.tanh(x)))
    c.add("activation-prelu", mlp(nn.PReLU()), (3,))
    c.add("activation-prelu-channels", S(nn.Conv2d(1, 3, 2), nn.PReLU(3), nn.Flatten(), nn.Linear(12, 2)), (1, 3, 3))
    c.add("activation-swish-learnt", mlp(Fn(lambda m, x: x * torch.sigmoid(m.beta * x), beta=torch.ones(1))), (3,))
    c.add("activation-snake", mlp(Fn(lambda m, x: x + torch.sin(m.a * x) ** 2 / m.a, a=torch.ones(4))), (3,))
    c.add("activation-glu", mlp(nn.GLU(), hidden=6, after=3), (3,))
    c.add("activation-maxout", mlp(of(lambda x: x.view(-1, 3, 2).max(2)[0]), hidden=6, after=3), (3,))
    c.add("activation-crelu", mlp(of(lambda x: torch.cat([F.relu(x), F.relu(-x)], 1)), after=8), (3,))
    for gate in ("silu", "gelu", "sigmoid"):
        c.add(f"gated-{gate}", S(Fn(lambda m, x, g=gate: m.down(getattr(torch, g, getattr(F, g, None))(m.gate(x)) * m.up(x)),
                                    gate=nn.Linear(3, 4, bias=False), up=nn.Linear(3, 4, bias=False), down=nn.Linear(4, 2, bias=False))), (3,),
              inexact="√2" if gate == "gelu" else "")


def norms(c):
    c.add("batchnorm1d", mlp(S(nn.BatchNorm1d(4, eps=f32(1e-5)), nn.ReLU())), (3,))
    c.add("batchnorm2d-fused", S(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3, eps=f32(1e-5)), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)), (1, 3, 3),
          fused=lambda m: S(fuse_conv_bn_eval(m[0], m[1]), *m[2:]), inexact="folded in float32")
    c.add("batchnorm2d", S(nn.BatchNorm2d(2, eps=f32(1e-5)), nn.Conv2d(2, 3, 2), nn.ReLU(), nn.BatchNorm2d(3, eps=f32(1e-5)), nn.Flatten(), nn.Linear(12, 2)), (2, 3, 3))
    c.add("batchnorm-without-affine", mlp(nn.BatchNorm1d(4, affine=False, eps=f32(1e-5))), (3,))
    c.add("frozen-batchnorm", S(nn.Conv2d(1, 3, 2), misc.FrozenBatchNorm2d(3, eps=0.5), nn.Flatten(), nn.Linear(12, 2)), (1, 3, 3), fold=False)
    c.add("layernorm", mlp(S(nn.LayerNorm(4, eps=f32(1e-5)), nn.Tanh())), (3,))
    c.add("layernorm-operator", mlp(S(nn.LayerNorm(4, eps=f32(1e-5)), nn.Tanh())), (3,), first=17)
    c.add("layernorm-without-affine", mlp(nn.LayerNorm(4, elementwise_affine=False, eps=f32(1e-5))), (3,), last=16)
    c.add("layernorm-two-dimensions", S(nn.Conv1d(2, 3, 2), nn.LayerNorm([3, 4], eps=f32(1e-5)), nn.Flatten(), nn.Linear(12, 2)), (2, 5))
    c.add("layernorm-channels", S(nn.Conv2d(1, 4, 2), of(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(4, eps=f32(1e-6)), of(lambda x: x.permute(0, 3, 1, 2)),
                                  nn.Flatten(), nn.Linear(16, 2)), (1, 3, 3))
    c.add("groupnorm", S(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4, eps=f32(1e-5)), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)), (1, 3, 3))
    c.add("instancenorm2d", S(nn.Conv2d(1, 3, 2), nn.InstanceNorm2d(3, affine=True, eps=f32(1e-5)), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)), (1, 3, 3))
    c.add("instancenorm1d", S(nn.Conv1d(2, 3, 2), nn.InstanceNorm1d(3, eps=f32(1e-5)), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)), (2, 5))
    c.add("local-response-norm", S(nn.Conv2d(1, 4, 2), nn.LocalResponseNorm(3, alpha=0.5, beta=0.75, k=1.0), nn.Flatten(), nn.Linear(16, 2)), (1, 3, 3))
    c.add("rmsnorm", mlp(Fn(lambda m, x: m.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + f32(1e-6)), weight=torch.ones(4))), (3,))
    c.add("normalize", mlp(of(lambda x: F.normalize(x, dim=1))), (3,))
    c.add("standardize", mlp(of(lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 0.25))), (3,))
    c.add("variance", mlp(of(lambda x: torch.cat([x.var(1, keepdim=True), x.var(1, unbiased=False, keepdim=True), x[:, :2]], 1))), (3,))
    c.add("weight-norm", S(weight_norm(nn.Linear(3, 4)), nn.Tanh(), weight_norm(nn.Linear(4, 2))), (3,), fold=False)
    c.add("weight-norm-convolution", S(weight_norm(nn.Conv1d(2, 3, 2)), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)), (2, 5), fold=False)
    c.add("spectral-norm", S(spectral_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 2)), (3,), fold=False)
    c.add("cosine-classifier", S(nn.Linear(3, 4), nn.Tanh(), Fn(lambda m, x: 4 * F.normalize(x, dim=1) @ F.normalize(m.w, dim=1).t(), w=torch.randn(2, 4))), (3,), fold=False)
    c.add("layer-scale", S(nn.Linear(3, 4), Fn(lambda m, x: x + m.gamma * m.inner(x), gamma=torch.full((4,), 0.5), inner=S(nn.Linear(4, 4), nn.Tanh())), nn.Linear(4, 2)), (3,))


def pools(c):
    def add(name, pool, features, shape=(1, 5, 5), conv=None, **k):
        c.add("pool-" + name, S(conv or nn.Conv2d(1, 2, 2), nn.Tanh(), pool, nn.Flatten(), nn.Linear(features, 2)), shape, **k)

    add("max", nn.MaxPool2d(2), 8)
    add("max-padded", nn.MaxPool2d(3, 2, 1), 8)
    add("max-ceil", nn.MaxPool2d(3, 2, ceil_mode=True), 8)
    add("max-dilated", nn.MaxPool2d(2, 1, dilation=2), 8)
    add("average", nn.AvgPool2d(2), 8)
    add("average-padded", nn.AvgPool2d(3, 2, 1), 8)
    add("average-exclusive", nn.AvgPool2d(3, 2, 1, count_include_pad=False), 8)
    add("adaptive-average", nn.AdaptiveAvgPool2d(1), 2)
    add("adaptive-average-2", nn.AdaptiveAvgPool2d(2), 8)
    add("adaptive-max", nn.AdaptiveMaxPool2d(1), 2)
    add("mean", of(lambda x: x.mean([2, 3])), 2)
    add("amax", of(lambda x: x.amax((2, 3))), 2)
    add("mean-and-deviation", of(lambda x: torch.cat([x.mean((2, 3)), x.flatten(2).std(2)], 1)), 4)
    add("lp", nn.LPPool2d(2, 2), 8)
    add("gem", Fn(lambda m, x: (x * x + 0.25).pow(m.p).mean((2, 3)).pow(1 / m.p), p=torch.full((1,), 3.0)), 2)
    add("max1d", nn.MaxPool1d(2), 4, (2, 5), nn.Conv1d(2, 2, 2))
    add("average1d", nn.AvgPool1d(2), 4, (2, 5), nn.Conv1d(2, 2, 2))
    add("max3d", nn.MaxPool3d(2), 2, (1, 3, 3, 3), nn.Conv3d(1, 2, 2))
    add("adaptive3d", nn.AdaptiveAvgPool3d(1), 2, (1, 3, 3, 3), nn.Conv3d(1, 2, 2))
    add("max-over-time", of(lambda x: x.max(2)[0]), 2, (2, 5), nn.Conv1d(2, 2, 2))


def convolutions(c):
    def add(name, conv, features, shape, **k):
        c.add("conv-" + name, S(conv, nn.Tanh(), nn.Flatten(), nn.Linear(features, 2)), shape, **k)

    add("1d", nn.Conv1d(2, 3, 3, padding=1), 12, (2, 4))
    add("1d-causal", S(nn.ConstantPad1d((2, 0), 0.0), nn.Conv1d(2, 3, 3)), 12, (2, 4))
    add("1d-dilated", nn.Conv1d(2, 3, 2, dilation=2), 9, (2, 5))
    add("2d-strided", nn.Conv2d(2, 3, 3, stride=2, padding=1), 12, (2, 4, 4))
    add("2d-dilated", nn.Conv2d(1, 2, 2, dilation=2, bias=False), 8, (1, 4, 4))
    add("2d-groups", nn.Conv2d(4, 4, 2, groups=2), 16, (4, 3, 3))
    add("2d-depthwise", nn.Conv2d(3, 3, 2, groups=3), 12, (3, 3, 3))
    add("2d-separable", S(nn.Conv2d(2, 2, 2, groups=2, bias=False), nn.Conv2d(2, 3, 1)), 12, (2, 3, 3))
    add("2d-asymmetric", nn.Conv2d(1, 2, (1, 3), stride=(2, 1), padding=(0, 1)), 12, (1, 3, 3))
    add("3d", nn.Conv3d(1, 2, 2), 16, (1, 3, 3, 3))
    add("1x1", nn.Conv2d(3, 2, 1), 8, (3, 2, 2))
    add("padding-circular", S(of(lambda x: torch.cat([x[..., -1:], x, x[..., :1]], -1)), nn.Conv2d(1, 2, 3)), 6, (1, 3, 3))  # padding_mode="circular" is exported wrongly
    for mode in ("reflect", "replicate"):
        add("padding-" + mode, nn.Conv2d(1, 2, 3, padding=1, padding_mode=mode), 18, (1, 3, 3))
    add("transpose1d", nn.ConvTranspose1d(2, 2, 3, stride=2), 18, (2, 4))
    add("transpose2d", nn.ConvTranspose2d(2, 2, 3, stride=2, padding=1, output_padding=1), 32, (2, 2, 2))
    add("transpose2d-groups", nn.ConvTranspose2d(2, 4, 2, stride=2, groups=2), 64, (2, 2, 2))
    add("transpose3d", nn.ConvTranspose3d(1, 1, 2), 27, (1, 2, 2, 2))
    add("patches", S(nn.Conv2d(1, 4, 2, stride=2), nn.Flatten(2), of(lambda x: x.transpose(1, 2))), 16, (1, 4, 4))
    add("coordinates", Fn(lambda m, x: m.conv(torch.cat([x, m.grid.expand(x.shape[0], -1, -1, -1)], 1)),
                          {"grid": torch.stack(torch.meshgrid(torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 3), indexing="ij"))[None].double()},
                          conv=nn.Conv2d(3, 2, 2)), 8, (1, 3, 3))
    add("shuffled-channels", S(nn.Conv2d(4, 4, 1, groups=2), of(lambda x: x.view(-1, 2, 2, 2, 2).transpose(1, 2).reshape(x.shape)), nn.Conv2d(4, 4, 1, groups=2)), 16, (4, 2, 2))
    add("normalized-pixels", S(Fn(lambda m, x: (x - m.mean) / m.sd, {"mean": torch.tensor([0.5, 0.25]).view(1, 2, 1, 1), "sd": torch.tensor([0.25, 0.5]).view(1, 2, 1, 1)}),
                               nn.Conv2d(2, 3, 2)), 12, (2, 3, 3))


class Bottleneck(nn.Module):
    """MobileNet's inverted residual with a squeeze-and-excitation."""

    def __init__(self):
        super().__init__()
        self.expand, self.depth, self.project = nn.Conv2d(2, 4, 1, bias=False), nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), nn.Conv2d(4, 2, 1, bias=False)
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x):
        h = F.relu6(self.depth(F.relu6(self.expand(x))))
        h = h * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(h, 1)))))
        return x + self.project(h)


class UNet(nn.Module):
    def __init__(self, **up):
        super().__init__()
        self.up = up
        self.enc, self.mid, self.dec = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x):
        e = F.relu(self.enc(x))
        m = F.relu(self.mid(F.max_pool2d(e, 2)))
        y = self.dec(torch.cat([F.interpolate(m, size=e.shape[2:], **self.up), e], 1))
        return F.avg_pool2d(y, (2, 4)).flatten(1)


def resizes(c):
    def add(name, up, features, conv=None, shape=(1, 3, 3), **k):
        c.add("resize-" + name, S(conv or nn.Conv2d(1, 2, 2), nn.Tanh(), up, nn.Flatten(), nn.Linear(features, 2)), shape, **k)

    add("nearest", nn.Upsample(scale_factor=2), 32)
    add("nearest-size", nn.Upsample((3, 5)), 30)
    add("bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), 32)
    add("bilinear-corners", nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), 32)
    add("bilinear-size", nn.Upsample((3, 5), mode="bilinear"), 30)
    add("bilinear-down", nn.Upsample((2, 2), mode="bilinear"), 8, shape=(1, 4, 5))
    add("bicubic", nn.Upsample(scale_factor=2, mode="bicubic"), 32)
    add("bicubic-corners", nn.Upsample((3, 3), mode="bicubic", align_corners=True), 18)
    add("linear1d", nn.Upsample(scale_factor=2, mode="linear"), 16, nn.Conv1d(2, 2, 2), (2, 5))
    add("trilinear", nn.Upsample(scale_factor=2, mode="trilinear"), 64, nn.Conv3d(1, 1, 2), (1, 3, 3, 3))
    add("pixel-shuffle", nn.PixelShuffle(2), 16, nn.Conv2d(1, 4, 2))
    add("pixel-unshuffle", nn.PixelUnshuffle(2), 8, shape=(1, 3, 3))
    c.add("unet-bilinear", UNet(mode="bilinear", align_corners=False), (1, 4, 4))
    c.add("unet-bilinear-corners", UNet(mode="bilinear", align_corners=True), (1, 4, 4))
    c.add("unet-nearest", UNet(mode="nearest"), (1, 4, 4))


def compositions(c):
    c.add("residual", S(nn.Linear(3, 4), Fn(lambda m, x: x + m.inner(x), inner=S(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))), nn.Linear(4, 2)), (3,))
    c.add("dense-connections", Fn(lambda m, x: m.c(torch.cat([x, m.a(x).tanh(), m.b(torch.cat([x, m.a2(x)], 1)).relu()], 1)),
                                  a=nn.Linear(3, 2), a2=nn.Linear(3, 2), b=nn.Linear(5, 2), c=nn.Linear(7, 2)), (3,))
    c.add("highway", S(Fn(lambda m, x: torch.sigmoid(m.t(x)) * torch.tanh(m.h(x)) + (1 - torch.sigmoid(m.t(x))) * x, t=nn.Linear(3, 3), h=nn.Linear(3, 3)), nn.Linear(3, 2)), (3,))
    c.add("squeeze-excite", S(Bottleneck(), nn.Flatten(), nn.Linear(8, 2)), (2, 2, 2))
    c.add("inception", S(Fn(lambda m, x: torch.cat([m.a(x), m.b(x), F.max_pool2d(x, 3, 1, 1)], 1), a=nn.Conv2d(1, 2, 1), b=nn.Conv2d(1, 2, 3, padding=1)),
                         nn.Flatten(), nn.Linear(45, 2)), (1, 3, 3))
    c.add("convnext-block", S(nn.Conv2d(1, 4, 1), Fn(lambda m, x: x + m.gamma[:, None, None] * m.b(F.gelu(m.a(m.norm(m.depth(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2),
                                                     depth=nn.Conv2d(4, 4, 3, padding=1, groups=4), norm=nn.LayerNorm(4, eps=f32(1e-6)), a=nn.Linear(4, 4), b=nn.Linear(4, 4),
                                                     gamma=torch.full((4,), 0.5)), nn.Flatten(), nn.Linear(16, 2)), (1, 2, 2), inexact="√2")
    c.add("dropout", S(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.AlphaDropout(0.2), nn.Linear(4, 2)), (3,))
    c.add("dropout2d", S(nn.Conv2d(1, 2, 2), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(8, 2)), (1, 3, 3))
    c.add("tied-autoencoder", Fn(lambda m, x: torch.tanh(x @ m.w.t() + m.b) @ m.w + m.c, w=torch.randn(2, 3), b=torch.zeros(2), c=torch.zeros(3)), (3,), blocks={"w": "Full"}, fold=False)
    shared = nn.Linear(3, 3)
    c.add("shared-layer", S(shared, nn.Tanh(), shared, nn.Tanh(), nn.Linear(3, 2)), (3,))
    c.add("siamese", Fn(lambda m, x: m.out(torch.abs(m.enc(x[:, :3]) - m.enc(x[:, 3:]))), enc=S(nn.Linear(3, 4), nn.Tanh()), out=nn.Linear(4, 2)), (6,))
    c.add("mixture-of-experts", Fn(lambda m, x: (torch.softmax(m.gate(x), 1).unsqueeze(2) * torch.stack([e(x) for e in m.experts], 1)).sum(1),
                                   gate=nn.Linear(3, 2), experts=nn.ModuleList([mlp(nn.Tanh()), mlp(nn.ReLU())])), (3,))
    c.add("ensemble", Fn(lambda m, x: torch.stack([e(x) for e in m.members]).mean(0), members=nn.ModuleList([mlp(nn.Tanh()), mlp(nn.ReLU())])), (3,))
    c.add("heads-joined", Fn(lambda m, x: torch.cat([h(torch.tanh(m.enc(x))) for h in m.heads], 1), enc=nn.Linear(3, 4), heads=nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])), (3,))
    c.add("scalar-gate", S(nn.Linear(3, 4), Fn(lambda m, x: x + m.alpha * torch.tanh(x), alpha=torch.tensor(0.5)), nn.Linear(4, 2)), (3,))
    c.add("temperature", S(mlp(nn.Tanh()), Fn(lambda m, x: x * torch.exp(m.log), log=torch.full((1,), 0.5))), (3,))
    c.add("film", Fn(lambda m, x: m.out(m.scale(x[:, 3:]) * torch.tanh(m.enc(x[:, :3])) + m.shift(x[:, 3:])), enc=nn.Linear(3, 4), scale=nn.Linear(2, 4), shift=nn.Linear(2, 4), out=nn.Linear(4, 2)), (5,))
    c.add("hypernetwork", Fn(lambda m, x: torch.bmm(m.w(x).view(-1, 2, 3), x.unsqueeze(2)).squeeze(2), w=nn.Linear(3, 6)), (3,))
    c.add("low-rank", S(Fn(lambda m, x: m.base(x) + 0.5 * (x @ m.a @ m.b), base=nn.Linear(3, 4), a=torch.randn(3, 2), b=torch.randn(2, 4)), nn.Tanh(), nn.Linear(4, 2)), (3,))
    c.add("positive-weights", S(Fn(lambda m, x: F.linear(x, torch.exp(m.w), m.b), w=torch.randn(4, 3), b=torch.randn(4)), nn.Tanh(), nn.Linear(4, 2)), (3,), fold=False)
    c.add("masked-weights", S(Fn(lambda m, x: F.linear(x, m.w * m.mask, m.b), {"mask": torch.tensor([[1.0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]])}, w=torch.randn(4, 3), b=torch.randn(4)),
                              nn.Tanh(), nn.Linear(4, 2)), (3,), fold=False)
    c.add("fourier-features", S(Fn(lambda m, x: torch.cat([torch.sin(x @ m.freq), torch.cos(x @ m.freq)], 1), {"freq": torch.randn(3, 2)}), nn.Linear(4, 2)), (3,))
    c.add("siren", S(nn.Linear(3, 4), of(lambda x: torch.sin(3 * x)), nn.Linear(4, 2)), (3,))
    c.add("radial-basis", S(Fn(lambda m, x: torch.exp(-((x.unsqueeze(1) - m.centre) ** 2).sum(2) * m.scale), centre=torch.randn(4, 3), scale=torch.ones(4)), nn.Linear(4, 2)), (3,))
    c.add("prototypes", Fn(lambda m, x: -(torch.tanh(m.enc(x)).unsqueeze(1) - m.centre).norm(dim=2), enc=nn.Linear(3, 4), centre=torch.randn(2, 4)), (3,))
    c.add("factorization-machine", Fn(lambda m, x: m.lin(x) + 0.5 * ((x @ m.v) ** 2 - (x**2) @ (m.v**2)).sum(1, keepdim=True), lin=nn.Linear(3, 2), v=torch.randn(3, 2)), (3,), fold=False)
    c.add("deep-cross", Fn(lambda m, x: m.out(x * m.w(x) + x), w=nn.Linear(3, 3), out=nn.Linear(3, 2)), (3,))
    c.add("bilinear-layer", Fn(lambda m, x: torch.einsum("bi,oij,bj->bo", x[:, :2], m.w, x[:, 2:]) + m.b, w=torch.randn(2, 2, 3), b=torch.randn(2)), (5,), first=12)
    c.add("euler-steps", S(nn.Linear(2, 3), Fn(lambda m, x: m.step(m.step(x)), step=Fn(lambda m, x: x + 0.5 * torch.tanh(m.f(x)), f=nn.Linear(3, 3))), nn.Linear(3, 2)), (2,))
    c.add("standardized", S(Fn(lambda m, x: (x - m.mean) / m.sd, {"mean": torch.tensor([0.5, -1.0, 0.25]), "sd": torch.tensor([0.5, 2.0, 4.0])}), mlp(nn.Tanh()),
                            Fn(lambda m, x: x * m.sd + m.mean, {"mean": torch.tensor([3.0, 5.0]), "sd": torch.tensor([2.0, 0.5])})), (3,))
    c.add("fake-quantized", S(nn.Linear(3, 4), of(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.0625, 3, -128, 127)), nn.ReLU(), nn.Linear(4, 2)), (3,), first=13, double=False)
    c.add("logits-sigmoid", S(mlp(nn.Tanh()), nn.Sigmoid()), (3,), fused=lambda m: m[0])
    c.add("logits-softmax", S(mlp(nn.Tanh()), nn.Softmax(1)), (3,), fused=lambda m: m[0])
    c.add("logits-logsoftmax", S(mlp(nn.Tanh()), nn.LogSoftmax(1)), (3,), fused=lambda m: m[0])
