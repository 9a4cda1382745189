// Package gptest holds conformance suites for the interfaces that carry
// the inference: every implementation of ntk.Kernel, gp.Latent and gp.Dual
// runs the same one; so does everything that can be saved.
//
//	func TestIsotropic(t *testing.T) {
//		rng := rand.New(rand.NewPCG(1, 2))
//		b := gptest.RandomBatch(rng, 12, 3, gptest.RandomLayers(rng)...)
//		prior, err := ntk.NewIsotropic(2, nil)
//		require.NoError(t, err)
//		gptest.Kernel(t, ntk.New(prior, make([]float64, b.P), nil), b)
//	}
//
// It is used from external test packages, so that nothing imports in a circle.
package gptest
