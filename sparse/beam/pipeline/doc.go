// Package pipeline runs a fit or an explanation in parts on Apache Beam.
//
//	fit := &pipeline.Fit{FitOptions: pipeline.FitOptions{Inducing: "z.gp"}, Parts: 64, Out: "all.gp"}
//	report, err := fit.Run(ctx, "prism") // or another runner that is linked in
//
// The elements of a pipeline are shard.Part values, of a few bytes. A worker opens the
// inducing examples with their factor, the model and the data once in each process, by paths
// that must lead to the same files on all machines. It adds the sums (E13) of the parts of a
// bundle before it emits them, because some runners do not combine before they group, and
// 16 MB for each part would cross the network. The sums are combined by key; a matrix that is
// too large for one value is cut into tiles of rows, one key each. Sites, fingerprints and
// gradients of a part, which only the last step needs, go to a file of the part in a directory
// that all machines share. The last step joins the tiles and writes the posterior as gpexplain
// merge does.
package pipeline
