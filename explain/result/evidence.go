package result

// EvidenceValues has one number for each of the four evidences.
type EvidenceValues struct {
	AtTheta        Float `json:"at_theta"`        // at the trained parameters (E7)
	LinearGaussian Float `json:"linear_gaussian"` // of the linear-Gaussian model there (E8)
	Refit          Float `json:"refit"`           // at the optimum of the linearized model (E9)
	HeldSites      Float `json:"held_sites"`      // there, with log det B at the sites of the trained parameters
}

// EvidenceGradient are the derivatives of the evidences in the log of a common factor on
// all prior variances.
type EvidenceGradient struct {
	EvidenceValues
	Noise *EvidenceValues `json:"noise_variance,omitempty"` // in the log of the noise variance; nil where there is none
}

// EvidenceGroup is a group of parameter tensors that share a prior variance.
type EvidenceGroup struct {
	Name       string         `json:"name"`
	Tensors    []string       `json:"tensors"`
	Parameters int            `json:"parameters"`
	Variance   Float          `json:"variance"` // 0 holds the parameters at their prior mean
	Gradient   EvidenceValues `json:"gradient"` // in the log of the variance
}

// EvidencePoint is a choice of the variances with its evidence.
type EvidencePoint struct {
	Variances   []Float `json:"variances"` // of each group
	Noise       *Float  `json:"noise_variance,omitempty"`
	LogEvidence Float   `json:"log_evidence"`
}

// EvidenceOptimum is the choice of the variances under which an evidence is highest.
type EvidenceOptimum struct {
	Form       string          `json:"form"` // at-theta, linear-gaussian, refit or held-sites
	Kind       string          `json:"kind"` // of the prior: isotropic, groups or g
	Start      EvidencePoint   `json:"start"`
	Best       EvidencePoint   `json:"best"`
	Groups     []string        `json:"groups"`
	Parameters []int           `json:"parameters"` // of each group
	Zero       []string        `json:"at_zero"`    // groups whose variance runs to 0
	Edge       []string        `json:"at_edge"`    // groups, and noise, that ended at an end of the range
	Iterations int             `json:"iterations"`
	Settled    bool            `json:"settled"` // the last Newton step was short, and the curvature negative
	Maxima     []EvidencePoint `json:"maxima"`  // at which starts ended, the highest first
	Trajectory []EvidencePoint `json:"trajectory"`
	Held       int             `json:"held"` // parameters that no training output depends on, of a g-prior
	File       string          `json:"file,omitempty"`
}

// EvidenceCurvePoint are the evidences with all prior variances times a common factor.
type EvidenceCurvePoint struct {
	PriorPrecision Float `json:"prior_precision"` // where variances differ, their geometric mean, inverted
	EvidenceValues
}
