package kept

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// Options are those of Fit, Refit and Load. nil means all defaults: all rows with λ > 0
// are kept.
type Options struct {
	// Mean is what PredictTo and JointTo return as the mean. A Refit always has
	// m + K_*n α.
	Mean gp.Mean
	// Strength and PriorVariance are as in gp.KeepOptions: the threshold τ, and a bound on
	// the prior variance that saves a backward pass for rows which cannot be above τ.
	// FindThreshold finds both.
	Strength, PriorVariance float64
	// Found, if not nil, is a result of FindThreshold at the sites of the posterior or at sites near them. It
	// replaces Strength and PriorVariance. Only with it are there representatives (gp.Kept.Represent): variances
	// are then near those with all rows, above or below, and the evidence is an estimate and no bound. The
	// posterior takes the representatives out of Found, so a second posterior has to find them again.
	Found *Threshold
	// Products multiplies the Jacobian of all training examples with vectors; nil means the
	// products of the source. Jᵀu must be exact. J v need not be, as in
	// network.Network.Products.
	Products linearize.Products
	// Outputs are f(x;θ*), N×C, for a Refit where they are known; nil takes a pass over the
	// training examples.
	Outputs *mat.Dense
	// Start are weights v, P numbers, from which a Refit starts, such as those that
	// mode.FindMatch ends with; nil means θ*.
	Start []float64
	// Near, if not nil, is a Refit of the same examples under another prior with the same
	// mean. A Refit starts from its mode, which is near if the priors are similar.
	Near *Posterior
	// Checkpoint, if not nil, is called by Refit before each Newton step with a function that
	// writes its state to a store, 8·(2·N·C + P) bytes. An error ends the refit. A gp.Scored
	// likelihood has no checkpoints.
	//
	//	func(save func(w *store.Writer) error) error { return store.Write(path, kind, version, save) }
	Checkpoint func(save func(w *store.Writer) error) error
	// Resume, if not nil, is the store of a checkpoint, from which Refit goes on. The result
	// is the same to the last bit as without the interruption. A checkpoint of other
	// examples, targets, prior or likelihood is a *store.Error.
	Resume *store.File
	// MaxNewton bounds the Newton steps of a Refit; 0 means 100.
	MaxNewton int
	linearize.Limits
	// Targets, if not nil, are compared by Load with those of the saved posterior; see
	// gp.Targets. Nothing else uses them.
	Targets *gp.Targets
}

// StageProducts is the stage of Options.Progress that counts the products of J with
// vectors. Their total is not known and reported as 0. The other stages are
// gp.StageNewton, gp.StageKeep, gp.StageKernel and gp.StageLeaveOneOut.
const StageProducts = "products"
