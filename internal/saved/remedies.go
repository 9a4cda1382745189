// Package saved holds what the loaders of posteriors have in common.
package saved

// What to do about a file that does not fit.
const (
	FitAgain      = "fit and save it again with this program"
	OtherData     = "give the network, its parameters, the prior and the examples that it was fitted with"
	OtherTargets  = "give the targets and the likelihood that it was fitted with"
	OtherInducing = "give the inducing examples that it was fitted with"
	Impossible    = "holds an impossible posterior"
	WriteAgain    = "write it again"
)
