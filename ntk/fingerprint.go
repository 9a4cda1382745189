package ntk

import "github.com/funcgp/funcgp/linearize"

// Fingerprint identifies the prior relative to θ*: Σ₀ and μ₀ − θ*, bit for bit.
// Saved posteriors compare it.
func (k *NTK) Fingerprint() linearize.Sum { return linearize.SumOf(k.variance, k.shift) }

// Mismatch says in words how the parameters at which b is linearized differ from the θ* that
// New was given. It is empty where they are the same, and where b has no fingerprint of its
// model.
func (k *NTK) Mismatch(b *linearize.Batch) string { return k.model.Mismatch(b.Model) }

// A Difference is a parameter for which two kernels have different priors.
type Difference struct {
	Parameter int
	Variance  [2]float64 // its prior variance in either kernel
	Shift     [2]float64 // μ₀ − θ* of it in either kernel
}

// Difference returns the first parameter whose prior, or whose θ*, differs between two
// kernels of the same network; nil where there is none.
func (k *NTK) Difference(other *NTK) *Difference {
	if len(k.variance) != len(other.variance) {
		panic("ntk: kernels of different networks")
	}
	for i, v := range k.variance {
		if w := other.variance[i]; v != w || k.shift[i] != other.shift[i] {
			return &Difference{Parameter: i, Variance: [2]float64{v, w}, Shift: [2]float64{k.shift[i], other.shift[i]}}
		}
	}
	return nil
}
