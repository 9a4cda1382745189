// Package testref reads the reference numbers in testdata/reference for tests,
// finds MNIST where it is at hand, compares arrays with a tolerance, takes the value of a call that must succeed, and has random
// moments and slow, obvious integrals.
//
//	func TestForward(t *testing.T) {
//		ref := testref.Open(t, "layers/mlp-relu")
//		net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
//		b := testref.Must(net.Linearize(t.Context(), ref.Matrix("x")))(t)
//		// float64 on both sides; 1e-10 covers the order of the sums.
//		testref.RequireClose(t, b.F.RawMatrix().Data, ref.Floats("f"), 1e-10, "f")
//	}
//
// What the tensors mean is written in testdata/reference/README.md. A folder
// or data set that is not there skips the test and says where it was sought;
// one that is there and cannot be read fails it.
package testref
