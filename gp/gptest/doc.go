// Package gptest tests a user's own implementations of the interfaces that
// carry the inference, as testing/fstest does for a file system.
//
//	Kernel      an ntk.Kernel
//	Prior       an ntk.Prior
//	Likelihood  a gp.Likelihood
//	Model       a linearize.Model
//	Latent      a gp.Latent, a Gaussian posterior over functions
//	Dual        a gp.Dual, a posterior whose mean is a sum over examples
//	Weights     a weightspace.Weights, a Gaussian posterior over parameters
//	Saved       whatever is saved to a file and loaded from it
//
// Each of them says in its documentation what it checks, runs one subtest a
// promise, and reports through t alone. The implementations of this module run
// the same suites. RandomBatch makes Jacobians to check a kernel at:
//
//	func TestKernel(t *testing.T) {
//		rng := rand.New(rand.NewPCG(1, 2))
//		b := gptest.RandomBatch(rng, 12, 3, gptest.RandomLayers(rng)...)
//		gptest.Kernel(t, newKernel(b.P), b)
//	}
//
// The package imports gp and ntk, so it is used from external test packages.
package gptest
