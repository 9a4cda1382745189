// Package parts computes parts of explanations and of an audit as gpexplain explain --shard and audit --shard do, and
// merges them as gpexplain merge does, in the process of a program that hands the parts out by itself, such as an engine
// of dataflow. Parts of a fit are those of a funcgp.Pass.
//
//	terms, err := parts.OpenTerms(ctx, o)
//	part, err := terms.Part(ctx, shard.Part{Number: 3, Of: 64}) // in any process
//	total, err = total.Add(part)                               // of all parts
//	err = total.Write("all.terms")                             // for gpexplain merge
//
// Options go to another process as JSON, where they open the same model and data. Errors and warnings name an option by
// the flag of gpexplain that says the same. A value is used by one goroutine at a time.
package parts
