// Package shard splits the pass over training data that a sparse posterior takes
// into parts, which are computed anywhere, each into a file, and merged.
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
// The sums of a sparse posterior (E13) are a commutative monoid, so that parts of
// any sizes give the posterior of all data but for rounding. Merge adds them in the
// order of their numbers: its result does not depend on the order of the files, and
// it holds the sums of two parts at a time.
//
// A file is complete or not there, and its checksums find a damaged one. Each names
// by fingerprint what it is of (Identity) and which rows. Open refuses parts that are
// missing, doubled or of another pass, by the name of the file and with what differs.
package shard
