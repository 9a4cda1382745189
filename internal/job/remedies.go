package job

import (
	"github.com/funcgp/funcgp/internal/option"
)

// remedies says which option to set, by the code of a warning, for warnings of packages that do not know the
// options.
var remedies = map[string]option.Text{
	"batch-rough":          "Raise {max-memory}.",
	"inputs-scaled":        "Leave {standardize} at auto.",
	"jitter":               "Raise {prior-precision} or {noise-variance}, or leave out repeated rows.",
	"kept-short":           "Raise {max-memory}.",
	"labels":               "Name another tensor in {output}.",
	"match-rough":          "State the prior precision by {at}.",
	"maxima":               "Compare optimum.maxima of {json}.",
	"only-equal-pairs":     "Audit fewer rows by {train-count}.",
	"refit-gap":            "Raise {prior-precision}, or give {standardize=yes}.",
	"refit-steps":          "Raise {prior-precision}, or give {standardize=yes}.",
	"rows-left-out":        "Raise {prior-precision} or {noise-variance}.",
	"scale-edge":           "Choose another precision by {prior-precision} or {tune-prior}.",
	"sites-unsettled":      "Raise {prior-precision}.",
	"sums-open":            "Raise {prior-precision} or {noise-variance}, or leave out repeated rows.",
	"taken-for-constants":  "Name what was learnt in {learn} (gpexplain inspect lists all).",
	"taken-for-parameters": "Name what was not learnt in {freeze} (gpexplain inspect lists all).",
	"training-stopped":     "Train on from the file by {init}, or with more {epochs}.",
	"unsettled":            "Begin elsewhere with {prior-precision}.",
	"untrained":            "Train the model, or give {refit}.",
	"variance-edge":        "State it by {prior-precision} or {noise-variance}.",
	"worse-than-constant":  "Check {standardize}, {classes} and {target}, or train the model further.",
}
