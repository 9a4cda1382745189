// Package saved holds what the loaders of posteriors have in common.
package saved

// What to do about a file that does not fit.
const (
	OtherProgram  = "use the program that wrote it"
	OtherData     = "give the network, its parameters, the prior and the examples that it was fitted with"
	OtherInducing = "give the inducing examples that it was fitted with"
	Impossible    = "holds an impossible posterior"
	WriteAgain    = "write it again"
)
