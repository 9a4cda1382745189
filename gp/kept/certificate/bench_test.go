package certificate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// BenchmarkCertify takes the certificate of a posterior on a tenth of the rows.
func BenchmarkCertify(b *testing.B) {
	const n, c = 500, 4
	q := testkit.NewProblem("many", 11, n, c, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(b)
	k := testref.Must(gp.Keep(b.Context(), q.Kernel, q.Train, s, &gp.KeepOptions{Most: n / 10 * c}))(b)
	post := testref.Must(gp.FitKept(b.Context(), q.Kernel, q.Train, s, k, nil))(b)
	for _, all := range []bool{false, true} {
		b.Run(fmt.Sprintf("N=%d/P=%d/all=%v", n, q.Train.P, all), func(b *testing.B) {
			for b.Loop() {
				_, err := certificate.Certify(b.Context(), post, q.Train, s, q.Prior, q.Theta, &certificate.Options{Sample: 300, All: all})
				require.NoError(b, err)
			}
		})
	}
}
