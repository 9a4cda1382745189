// Package shard splits the pass of a sparse posterior over its training data into parts. Parts can be computed on
// any machine, each into a file, and are then merged.
//
//	base := builder.Posterior(ctx) // *sparse.Projected of no data: the inducing examples and their factor
//	part := shard.Part{Number: 3, Of: 64}
//	lo, hi := part.Rows(n)
//	s, err := shard.Compute(ctx, base, rows(lo, hi), y, lik) // on any machine
//	s.Part, s.Identity = part, identity
//	err = shard.Write("part3.sums", s, nil)
//
//	set, err := shard.Open(paths) // in any order
//	post, err := set.Merge(ctx, base)
//
// The sums of a sparse posterior (E13) are a commutative monoid, so parts of any sizes give the posterior of all
// data up to rounding. Merge adds the parts in the order of their numbers. Its result does not depend on the order
// of the files, and it holds the sums of two parts at a time.
//
// A file is complete or does not exist, and checksums detect damage. Each file has fingerprints of its pass
// (Identity) and of its rows. Open refuses parts that are missing, given twice or of another pass; the error names
// the file and the difference.
package shard
