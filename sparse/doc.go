// Package sparse approximates the posterior of package gp where N·C outputs
// are too many for it: all data are used, seen through M inducing examples.
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
//	report, err := post.Report(ctx, test, &sparse.ReportOptions{Sample: 1000})
//
// # The posterior
//
// With the inducing examples Z, Q = K_nZ K_ZZ⁻¹ K_Zn is what they explain of
// K, A = K_ZZ + Σ_i k_Zi Λ_i k_iZ and c = Σ_i k_Zi b_i,
//
//	mean = m + K_*Z A⁻¹ c,  cov = K_** − K_*Z (K_ZZ⁻¹ − A⁻¹) K_Z*    (E13).
//
// The residual k_** − q_** of a test example is kept, so that far from Z the
// variance is the prior's. That of the training examples is ignored (Nystrom,
// the projected process), or taken as noise of their own (FITC). A subset of
// data (FitSubset) ignores all but Z. With all training examples inducing,
// each is the exact posterior.
//
// Every approximate evidence states the sign of its error (Bound), and a
// Report how far predictions are from exact ones.
//
// # Pairs
//
// Pairs, as a Selector, and GatherPairs make (example, output) pairs inducing
// elements in place of whole examples: K_ZZ has a row for each, so that the rows go to
// the outputs that need them. What a posterior says of M, M·C and inducing
// examples holds with M pairs and M rows. All N·C pairs give the exact
// posterior, and the C pairs of each of some examples that of the examples.
// A subset of data has no pairs.
//
// # Data
//
// A pass over the data takes them from any linearize.Source in chunks of a
// fixed number of examples; the memory is that of a few M·C×M·C matrices and
// of one chunk (Bytes), and the result is the same to the last bit whatever
// the batches of the source, GOMAXPROCS and Options.Workers. What the data
// say is a set of sums (Sums), which add up: a Builder makes them from a part
// of the data, Merge joins those of different parts, MarshalBinary carries
// them from one machine to another, and Posterior.Add and Remove change the
// data of a finished posterior. Under other prior variances, all times one
// factor, the sums are known too (Projected.At), and so are those of the first
// m inducing examples alone (Projected.Leading). Test examples whose features
// are formed once (Projected.Prepare) are predicted under any of them, which
// is how Tune chooses the prior variances on held-out examples.
//
// A Fit or Refit that was stopped goes on from its last Checkpoint, in the
// middle of a pass, and ends with the same bits (Options.Resume).
//
// # Files
//
// Save writes a finished posterior to a store, and Load and LoadProjected map
// it into memory, in any process: see package store.
//
// # Explanations
//
// The mean is a sum over all N training examples, not over Z:
//
//	mean = m + Σ_i (k_*Z A⁻¹ k_Zi) b_i = m + Σ_i q_*i α_i,
//
// so a Posterior is a gp.Dual whose Cross gives k_*Z A⁻¹ k_Zi for the
// posterior terms and q_*i for the raw ones. Neither has the residual
// k_*i − q_*i, which plays no part in the mean; PredictTo's covariance of a
// training example does, SelfTo's does not.
//
// # Numerics
//
// Features φ = L⁻¹k_Z whiten the inducing examples, K_ZZ = L Lᵀ, without
// jitter. Where K_ZZ is singular to working precision its rank is found by
// pivoted Cholesky, dropping pivots below 1e-15 of the largest, and reported
// as a *RankWarning; nothing but rounding is lost. All else follows from one
// factor of A' = I + ΦΛΦᵀ, which exists for any Λ, singular or zero.
package sparse
