// Package linearize has the linearization of a parametric model at its trained parameters, f_lin(x;θ) = f(x;θ*) +
// J(x)(θ−θ*) (E1). Inference needs nothing else of the model.
//
// A Batch has the inputs, the outputs, and the Jacobian of every output in every parameter. The Jacobian consists
// of one Block for each layer, in the structure of that layer, and not of one dense matrix. A Source yields Batches
// one after the other, for data that do not fit into memory. Anything with the methods of Model can be linearized;
// package network reads neural networks from ONNX.
//
//	b, err := model.Linearize(ctx, x) // x is N×D
//	if err != nil {
//		return err
//	}
//	jv := make([]float64, b.Len()*b.Outputs())
//	b.MulVecTo(jv, v) // J v without forming J
//
// # Notation
//
// The same letters are used in every package of funcgp.
//
//	N  training examples          x   input, D numbers
//	D  inputs                     y   target
//	C  outputs                    f   network output, C numbers
//	P  parameters                 θ   parameters, P numbers; θ* the trained ones
//	M  inducing examples          J   ∂f/∂θ at θ*, C×P for one example
//	S  samples                    μ₀, Σ₀  prior mean and (diagonal) prior covariance
//	T  test examples              κ, K    kernel J Σ₀ Jᵀ, K over the training examples
//	r  ∂log p(y|f)/∂f             Λ   −∂²log p(y|f)/∂f², C×C, R a root: Λ = R Rᵀ
//	B  I + Rᵀ K R                 b   pseudo-targets r + Λ(f−m)
//	α  dual vector, mean = m + K_*n α
//
// Row n·C+c of a stacked vector or matrix is output c of example n, so a range of examples is a range of rows. θ
// consists of the parameter tensors in file order, each stored row by row. All numbers are float64.
package linearize
