package ntk

import "github.com/funcgp/funcgp/linearize"

// Fingerprint identifies the prior relative to θ*: Σ₀ and μ₀ − θ*, bit for bit.
// Saved posteriors compare it.
func (k *NTK) Fingerprint() linearize.Sum { return linearize.SumOf(k.variance, k.shift) }
