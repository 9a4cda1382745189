// Package sparse approximates the posterior of package gp where N·C outputs
// are too many for it. It uses all data, and approximates the kernel between
// them by one of low rank, which M inducing examples span.
//
//	z, err := sparse.Select(ctx, sparse.Stratified{Labels: labels}, kernel, data, 200, nil)
//	if err != nil {
//		return err
//	}
//	post, err := sparse.Fit(ctx, kernel, data, sites, z, nil) // data: any linearize.Source
//	if err != nil {
//		return err
//	}
//	var mean, cov mat.Dense
//	err = post.PredictTo(ctx, &mean, &cov, test) // T×C and T·C×C
//	report, err := post.Report(ctx, test, 1000, seed)
//
// # The posterior
//
// The inducing examples Z approximate K by Q = K_nZ K_ZZ⁻¹ K_Zn. With
// A = K_ZZ + Σ_i k_Zi Λ_i k_iZ and c = Σ_i k_Zi b_i, the posterior is
//
//	mean = m + K_*Z A⁻¹ c,  cov = K_** − K_*Z (K_ZZ⁻¹ − A⁻¹) K_Z*    (E13).
//
// The residual k_** − q_** of a test example is kept, so that far from Z the
// variance is the prior's. The residuals of the training examples are ignored
// (Nyström, the projected process). A subset of data (FitSubset) ignores all
// training examples but Z. Where all training examples are inducing, both are
// the exact posterior.
//
// Every approximate evidence states the sign of its error (Bound), and a
// Report says how far predictions are from exact ones.
//
// # Pairs
//
// SelectKept and GatherDirections make pairs of an example and a direction u inducing
// elements, which stand for uᵀf of the example, in place of whole examples. K_ZZ then
// has one row for each pair instead of C rows for each example. The documentation speaks
// of M inducing examples and M·C rows; with pairs, read M pairs and M rows. A subset of
// data has no pairs.
//
// # Data
//
// A pass over the data takes them from any linearize.Source in chunks of a
// fixed number of examples. It needs the memory of a few M·C×M·C matrices and
// of one chunk (Bytes), and its result is the same to the last bit whatever
// the batches of the source and GOMAXPROCS.
//
// The posterior depends on the data only through sums over training examples
// (Sums). A Builder computes the sums of a part of the data, Merge adds those of
// different parts, and MarshalBinary carries them from one machine to another. Two changes
// need no pass over the data: Projected.At multiplies all prior variances by a
// factor, and Projected.Leading keeps only the first m inducing examples.
// Projected.Prepare computes the features of test examples once for all of
// these posteriors, and Tune uses them to choose the prior variances on held-out
// examples.
//
// A Fit or Refit that was stopped goes on from its last checkpoint, even in the
// middle of a pass, and ends with the same bits (Options.Checkpoint and Resume).
//
// # Kept rows
//
// A network is sure of most training examples, and where it is sure Λ is nearly
// zero. FitKept sums over the rows that gp.Keep kept (E16), each with one backward
// pass and one column of k_Z in place of C an example. The sums of b = r + Λ̃(f − m)
// still run over all N examples.
//
// # Files
//
// Save writes a finished posterior to a file, and Load and LoadProjected map
// it into memory, in any process. Both are for Posterior.Save and Open of package funcgp.
//
// # Explanations
//
// The mean is a sum over all N training examples, not over Z:
//
//	mean = m + Σ_i (k_*Z A⁻¹ k_Zi) b_i = m + Σ_i q_*i α_i,
//
// so a Posterior is a gp.Dual. Its Cross gives k_*Z A⁻¹ k_Zi for the posterior
// terms and q_*i for the raw ones. Neither includes the residual k_*i − q_*i,
// which does not enter the mean. The covariance of PredictTo includes the
// residual of an example, the first part of SplitTo does not.
//
// # Numerics
//
// The features are φ = L⁻¹k_Z with K_ZZ = L Lᵀ, factored without jitter. Where
// K_ZZ is singular to working precision, pivoted Cholesky finds its rank by
// dropping pivots below 1e-15 of the largest, and a warning of inducing-rank reports it;
// nothing but rounding is lost. All else follows from one factor of
// A' = I + ΦΛΦᵀ, which exists for any Λ, singular or zero.
package sparse
