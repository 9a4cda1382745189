// Package parts computes parts of explanations and of an audit as gpexplain explain --shard and audit --shard do, and
// merges them as gpexplain merge does. It is for a program that distributes the parts itself, such as a dataflow engine.
// Parts of a fit are those of a funcgp.Pass.
//
//	terms, err := parts.OpenTerms(ctx, o)
//	part, err := terms.Part(ctx, shard.Part{Number: 3, Of: 64}) // in any process
//	total, err = total.Add(part)                               // of all parts
//	err = total.Write("all.terms")                             // for gpexplain merge
//
// Options can be sent to another process as JSON, where they open the same model and data. Errors and warnings name an
// option by its flag of gpexplain. Only one goroutine may use a value at a time.
package parts
