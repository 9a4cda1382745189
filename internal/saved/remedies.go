// Package saved checks, for every Load, that a saved posterior belongs to the model,
// the examples and the prior that Load is given.
package saved

// Parts of the errors for a file that does not fit: the problem Impossible, and
// what to do.
const (
	FitAgain      = "fit and save it again with this program"
	OtherData     = "give the network, its parameters, the prior and the examples that it was fitted with"
	OtherTargets  = "give the targets and the likelihood that it was fitted with"
	OtherInducing = "give the inducing examples that it was fitted with"
	Impossible    = "holds an impossible posterior"
	WriteAgain    = "write it again"
)
