package saved

import "github.com/funcgp/funcgp/store"

// Version makes another version than ours the Reader's error. Earlier versions
// hold no fingerprints.
func Version(r *store.Reader, was, ours int) {
	if r.Err() == nil && was != ours {
		_ = r.Fail(FitAgain, "holds a posterior in version %d of its format, this program reads version %d", was, ours)
	}
}
