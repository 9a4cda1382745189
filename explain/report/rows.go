package report

import "github.com/funcgp/funcgp/explain/result"

// LabelText is the label in words: the name of its class, or the number; "" where it is
// unknown.
func LabelText(r *result.NamedRow) string { return labelNamed(r.LabelName, r.Label) }
