package network

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A LogLik is Σ log p(y|f(x;θ)) of a network as a function of θ, with its gradient. It
// keeps scratch between calls, so only one may run at a time.
type LogLik struct {
	net  *Network
	sum  *gradientSum
	loss Loss
}

// LogLik returns the log likelihood of the network as it is used, without Dropout and
// with the running statistics of its normalizations.
func (n *Network) LogLik(loss Loss) *LogLik {
	return &LogLik{net: n, sum: newGradientSum(n.prog, n.static), loss: loss}
}

// GradientTo returns Σ log p(y|f(x;θ)) over the rows of x, N×D, and y, and writes its
// gradient in θ to dst. dst and theta have length P; other sizes panic. A NaN or Inf in
// x or in an output is an error that names the row, and so is a log likelihood that is
// not a number.
func (l *LogLik) GradientTo(ctx context.Context, dst, theta []float64, x, y *mat.Dense) (float64, error) {
	if len(dst) != l.net.prog.P || len(theta) != l.net.prog.P || dense.Count(x) != dense.Count(y) {
		panic("network: sizes of a gradient of the log likelihood differ")
	}
	if err := l.net.checkInput(x); err != nil {
		return 0, err
	}
	clear(dst)
	l.sum.setTheta(theta)
	return l.sum.add(ctx, dst, x, logLik(l.loss, y, l.net.prog.C))
}
