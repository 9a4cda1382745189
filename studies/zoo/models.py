"""The networks of the zoo."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import convnext, mobilenetv2, resnet, swin_transformer, vision_transformer
from torchvision.ops.misc import Conv2dNormActivation


EPS = float(np.float32(1e-5))  # an attribute of the file, which is float32


class Attention(nn.Module):
    def __init__(self, d, heads, causal=0):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)
        if causal:
            self.register_buffer("mask", torch.triu(torch.full((causal, causal), float("-inf")), 1))
        else:
            self.mask = None

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if self.mask is not None:
            a = a + self.mask[:t, :t]
        return self.proj((torch.softmax(a, -1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads, causal=0):
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(d, EPS), nn.LayerNorm(d, EPS), Attention(d, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class ClassTokenViT(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.patch = nn.Conv2d(1, d, 7, 7)
        self.cls_token, self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 1, d)), nn.Parameter(0.02 * torch.randn(1, 5, d))
        self.blocks, self.norm, self.head = nn.Sequential(Block(d, 2), Block(d, 2)), nn.LayerNorm(d, EPS), nn.Linear(d, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class CausalTransformer(nn.Module):
    def __init__(self, words=12, length=10, d=12):
        super().__init__()
        self.token, self.position = nn.Embedding(words, d), nn.Embedding(length, d)
        self.blocks, self.norm, self.head = nn.Sequential(Block(d, 2, length), Block(d, 2, length)), nn.LayerNorm(d, EPS), nn.Linear(d, 3)

    def forward(self, t):
        x = self.token(t) + self.position(torch.arange(t.shape[1], device=t.device))
        return self.head(self.norm(self.blocks(x))[:, -1])


class UNet(nn.Module):
    """Removes noise from 8×8 pictures."""

    def __init__(self, d=4):
        super().__init__()
        double = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU())
        self.down, self.middle, self.up, self.out = double(1, d), double(d, 2 * d), double(3 * d, d), nn.Conv2d(d, 1, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.middle(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.up(torch.cat([a, b], 1))).flatten(1)


class Recurrent(nn.Module):
    """Reads a picture row by row."""

    def __init__(self, layer, **k):
        super().__init__()
        self.rnn = layer(14, 10, batch_first=True, **k)
        self.out = nn.Linear(20 if k.get("bidirectional") else 10, 4)

    def forward(self, x):
        return self.out(self.rnn(x)[0].mean(1))


class Recommender(nn.Module):
    """The bag of what was liked, times one more thing."""

    def __init__(self, things=30, d=6):
        super().__init__()
        self.seen, self.thing, self.bias, self.out = nn.EmbeddingBag(things, d, mode="mean"), nn.Embedding(things, d), nn.Embedding(things, 1), nn.Linear(d, 1)

    def forward(self, t):
        u, v = self.seen(t[:, :-1]), self.thing(t[:, -1])
        return self.out(u * v) + self.bias(t[:, -1])


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 8), nn.Linear(6, 8), nn.Linear(16, 2)

    def forward(self, left, right):
        return self.out(torch.cat([torch.tanh(self.a(left)), F.relu(self.b(right))], 1))


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.classes, self.size = nn.Sequential(nn.Flatten(), nn.Linear(196, 10), nn.Tanh()), nn.Linear(10, 4), nn.Linear(10, 1)

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.size(h)


def mobilenet():
    m = mobilenetv2.MobileNetV2(4, inverted_residual_setting=[[1, 8, 1, 1], [3, 8, 2, 2], [3, 16, 2, 2]], width_mult=0.25, dropout=0.0)
    m.features[0] = Conv2dNormActivation(1, 8, stride=2, norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU6)
    m.features[-1] = Conv2dNormActivation(8, 32, kernel_size=1, norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU6)
    m.classifier[1] = nn.Linear(32, 4)
    return m


def resnet18(width=2):
    m = resnet.ResNet(resnet.BasicBlock, [2, 2, 2, 2], 4)
    m.inplanes = width
    m.conv1, m.bn1 = nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
    for i, (layer, stride) in enumerate((("layer1", 1), ("layer2", 2), ("layer3", 2), ("layer4", 2))):
        setattr(m, layer, m._make_layer(resnet.BasicBlock, width << i, 2, stride))
    m.fc = nn.Linear(width << 3, 4)
    return m


def convnext_blocks():
    setting = [convnext.CNBlockConfig(8, 16, 2), convnext.CNBlockConfig(16, None, 1)]
    m = convnext.ConvNeXt(setting, 0.0, 0.5, 4)
    m.features[0][0] = nn.Conv2d(1, 8, 2, 2)
    return m


class OneChannel(nn.Module):
    """torchvision's ViT takes three channels."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.expand(-1, 3, -1, -1))


def swin():
    return OneChannel(swin_transformer.SwinTransformer([2, 2], 8, [2, 2], [2, 2], [4, 4], 2.0, stochastic_depth_prob=0.0, num_classes=4))


def vit():
    return OneChannel(vision_transformer.VisionTransformer(14, 7, 2, 2, 12, 24, num_classes=4))


def spec(what, make, data="digits", likelihood="categorical", delta=0.5, **more):
    return {"what": what, "make": make, "data": data, "likelihood": likelihood, "delta": delta, **more}


MODELS = {
    "vit-class-token": spec("vision transformer by hand: class token, learnt positions, two blocks of width 12", ClassTokenViT),
    "vit-torchvision": spec("torchvision's VisionTransformer: two layers of width 12, patches of 7×7", vit, opset=14),
    "swin-torchvision": spec("torchvision's SwinTransformer: stages of width 8 and 16, two blocks each, shifted windows of 4×4", swin, rows={"size": 16, "train": 60}, opset=16, polish=250),
    "causal-transformer": spec("transformer over token ids with a causal mask of −Inf: two blocks of width 12", CausalTransformer, "tokens"),
    "resnet18": spec("torchvision's ResNet-18 at width 2 for one channel", resnet18, fold=True, steps=150, opset=13),
    "mobilenetv2": spec("torchvision's MobileNetV2 at reduced width and depth", mobilenet, rows={"size": 16}, fold=True, opset=12),
    "convnext": spec("torchvision's ConvNeXt blocks: two of width 8, one of width 16", convnext_blocks),
    "unet-bilinear": spec("U-Net of one level with bilinear upsampling; 64 outputs", UNet, likelihood="gaussian", delta=1.0, rows={"train": 20, "test": 10, "size": 8, "clean": True}, opset=16, polish=2000),
    "lstm": spec("LSTM of width 10 over the rows of a picture", lambda: Recurrent(nn.LSTM), rows={"shape": (14, 14)}),
    "gru-both-ways": spec("bidirectional GRU of width 10 over the rows of a picture", lambda: Recurrent(nn.GRU, bidirectional=True), rows={"shape": (14, 14)}, opset=14),
    "embedding-bag": spec("recommender: the mean of embeddings of things liked, times that of one more thing", Recommender, "items", "bernoulli", delta=0.5),
    "two-inputs": spec("two inputs, joined after a layer each", TwoInputs, "table", rows={"cut": 4}, inputs=["left", "right"]),
    "two-outputs": spec("two outputs; the posterior is that of the first", TwoOutputs, outputs=["classes", "size"], pick=lambda f: f[0] if isinstance(f, tuple) else f),
    "external-data": spec("weights in a file beside the model", lambda: nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 2)), "table", external=True),
}
