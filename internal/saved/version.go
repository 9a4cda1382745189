package saved

import "github.com/funcgp/funcgp/store"

// Version gives r an error where was, the version of a saved posterior, is not
// ours. It reads no earlier version, because those hold no fingerprints.
func Version(r *store.Reader, was, ours int) {
	if r.Err() == nil && was != ours {
		_ = r.Fail(FitAgain, "holds a posterior in version %d of its format, this program reads version %d", was, ours)
	}
}
