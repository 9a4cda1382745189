package result

// An Evidence has the log evidences of a model for its training rows, in nats.
type Evidence struct {
	Schema string `json:"schema"`
	EvidenceValues
	LogLikelihood  Float    `json:"log_likelihood"` // the parts of AtTheta
	Scatter        Float    `json:"scatter"`
	LogDet         Float    `json:"log_det"`
	PriorPrecision Float    `json:"prior_precision"`
	NoiseVariance  Float    `json:"noise_variance"` // null where the likelihood has none
	Method         string   `json:"method"`
	Bound          string   `json:"bound"` // of at_theta
	Warnings       Warnings `json:"warnings"`
	Remarks        Warnings `json:"remarks,omitempty"`

	PriorPrecisionOrigin string         `json:"prior_precision_origin"`
	Prior                *Prior         `json:"prior,omitempty"` // nil where all parameters have PriorPrecision
	NoiseVarianceOrigin  string         `json:"noise_variance_origin,omitempty"`
	Preprocessing        *Preprocessing `json:"preprocessing"`
	Grouped              *Grouped       `json:"grouped,omitempty"`
	Preflight            *Preflight     `json:"preflight"`

	Gradient   EvidenceGradient `json:"gradient"` // zero unless it was asked for
	Groups     []EvidenceGroup  `json:"groups"`
	Normalized []string         `json:"normalized_layers"` // on whose scale the outputs do not depend
	Optimum    *EvidenceOptimum `json:"optimum,omitempty"` // nil unless it was asked for

	// Lower bounds of the exact evidences. Only the method nystrom has them.
	AtThetaLower        *Float `json:"at_theta_lower,omitempty"`
	LinearGaussianLower *Float `json:"linear_gaussian_lower,omitempty"`

	Certificate *Certificate `json:"certificate,omitempty"` // of kept

	ELBO *ELBO `json:"elbo,omitempty"` // with variational inference

	Fit   Fit            `json:"-"` // of the posterior at the trained parameters
	Curve *EvidenceCurve `json:"-"` // nil unless it was asked for
}

// An EvidenceCurve has the evidences over the prior precision, for a page.
type EvidenceCurve struct {
	Points  []EvidenceCurvePoint
	Values  EvidenceValues // at the prior shown, which is the optimum where there is one
	At      Float          // precision of that prior, on the axis of Points
	Several bool           // whether parameters have different variances
}

// EvidenceValues has one number for each of the four evidences.
type EvidenceValues struct {
	AtTheta        Float `json:"at_theta"`        // at the trained parameters (E7)
	LinearGaussian Float `json:"linear_gaussian"` // of the linear-Gaussian model there (E8)
	Refit          Float `json:"refit"`           // at the optimum of the linearized model (E9)
	HeldSites      Float `json:"held_sites"`      // there, with log det B at the sites of the trained parameters
}

// EvidenceGradient holds the derivative of each evidence in the log of a common factor on all prior variances.
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
