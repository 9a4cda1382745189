// Package kerneltest holds conformance suites for the interfaces that carry
// the inference: every implementation of ntk.Kernel, gp.Latent and gp.Dual
// runs the same one; so does everything that can be saved.
//
//	func TestIsotropic(t *testing.T) {
//		rng := rand.New(rand.NewPCG(1, 2))
//		b := kerneltest.RandomBatch(rng, 12, 3, kerneltest.RandomLayers(rng)...)
//		prior, err := ntk.NewIsotropic(2, nil)
//		require.NoError(t, err)
//		kerneltest.Kernel(t, ntk.New(prior, make([]float64, b.P), nil), b)
//	}
//
// It is used from external test packages, so that nothing imports in a circle.
package kerneltest
