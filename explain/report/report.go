package report

import "github.com/funcgp/funcgp/explain/result"

// attributionText is the sentence where the terms are not those of Fit, else "".
func attributionText(a *result.Attribution) string {
	if a == nil || a.Rule == "prior" {
		return ""
	}
	return a.Says
}
