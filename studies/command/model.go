package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Training is what a network's file says of its training, as that of gpexplain train does.
type Training struct {
	Likelihood string
	Precision  float64 // δ of the weight decay; 0 says nothing
	Classes    []int   // in the order of the outputs; nil of a regression
	// Inputs and Targets are the scalings under which it was trained; nil leaves numbers of
	// the data as they are, and means pictures for Inputs.
	Inputs, Targets *dataset.Scaling
}

// WriteModel writes a network to path, with its training. The directory is made where it is
// not there.
func WriteModel(path string, net *network.Network, t Training) error {
	kv := map[string]string{"funcgp.likelihood": t.Likelihood}
	if t.Precision > 0 {
		kv["funcgp.prior_precision"] = strconv.FormatFloat(t.Precision, 'g', -1, 64)
	}
	if t.Classes != nil {
		kv["funcgp.classes"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Classes), " ", ","), "[]")
	}
	if t.Inputs != nil {
		kv["funcgp.scaling"] = t.Inputs.String()
	}
	if t.Targets != nil {
		kv["funcgp.target_scaling"] = t.Targets.String()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, net.WithMetadata(kv).WriteONNX)
}
