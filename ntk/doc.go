// Package ntk forms the Gaussian process prior of a linearized network: the
// neural tangent kernel κ(x,x') = J(x) Σ₀ J(x')ᵀ and the prior mean
// m(x) = f(x;θ*) + J(x)(μ₀−θ*) (E2), from the structure of the layers and
// without forming J.
//
//	prior, err := ntk.NewIsotropic(10, nil) // N(0, I/10)
//	if err != nil {
//		return err
//	}
//	k := ntk.New(prior, net.Theta())
//	K := new(mat.Dense)
//	k.BlockTo(K, train, train) // N·C × N·C, exactly symmetric
//	cross := new(mat.Dense)
//	k.BlockTo(cross, test, train) // T·C × N·C
//	mean := make([]float64, test.Len()*test.Outputs())
//	k.MeanTo(mean, test)
//
// Priors have one variance for all parameters (Isotropic), one for each group
// (Layerwise), one for each parameter (Diagonal), those that the data's information
// on each parameter suggests (GPrior), or those of another prior times a factor for
// each group (Scaled). Their variance is applied in this package and nowhere else.
// Letters and shapes are those of package linearize: row n·C+c is output c of example n.
//
// # Cost
//
// The kernel is a sum over the blocks of the Jacobian. For each block the cheapest
// of these formulas is taken, by a count of multiply-adds in cost.go:
//
//   - a dense layer with one variance w for its weight and one, β, for its
//     bias is ((A Aᵀ·w + β) ⊗ 1) ∘ G Gᵀ;
//   - a dense layer whose variances differ is a sum of such products over the
//     layer's outputs;
//   - a weight used at T positions is Σ_tt' (g_t·g_t')(p_t·p_t') over its
//     patches p and gradients g;
//   - any block is the product of its columns, each scaled by the square root
//     of its variance.
//
// The result is written tile by tile. At most 64 MiB of columns are held at a
// time, and each worker holds a few tiles. The tiles do not depend on the number
// of processors, so results are bit-identical for any GOMAXPROCS.
package ntk
