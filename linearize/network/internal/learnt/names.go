package learnt

import (
	"regexp"
	"strings"
)

// A kindOfName is what the name of a tensor says about it.
type kindOfName int

const (
	otherName        kindOfName = iota // nothing
	generatedName                      // nothing: an exporter numbered it
	learntName                         // a parameter
	learntScalarName                   // a parameter, if it is a single number
	certainName                        // a constant, and nothing else is ever called so
	bufferName                         // a constant, usually
	encodingName                       // sines and cosines of positions, usually
	statisticName                      // a constant or a parameter
	spectralName                       // u or v of spectral normalization
	frequencyName                      // a constant, if sines or cosines are taken
)

// The names under which PyTorch's modules and widely used packages register buffers and
// parameters: the last part of the path, in lower case and without a number at its end.
var namesOfKind = map[kindOfName]string{
	learntName: "weight bias gamma beta weight_g weight_orig original cls_token class_token dist_token mask_token pos_embed pos_embedding position_embedding position_embeddings positional_embedding " +
		"pos_emb class_embedding query_tokens latents layer_scale relative_position_bias_table resweight in_proj_weight in_proj_bias weight_ih_l weight_hh_l bias_ih_l bias_hh_l",
	learntScalarName: "alpha gain gate temperature temp tau log_temperature logit_scale logit_bias log_scale log_tau rezero skip_weight skip_gain res_scale_weight lam log_sigma log_alpha log_beta slope",
	certainName: "running_mean running_var num_batches_tracked inv_freq attn_mask attention_mask causal_mask src_mask tgt_mask weight_mask bias_mask anchor_grid relative_position_index " +
		"relative_coords_table position_ids pixel_mean pixel_std",
	bufferName:    "mask tril triu anchors anchor grid coords coord coordinates mesh meshgrid freqs_cos freqs_sin cos_cached sin_cached cos_cache sin_cache slopes alibi sinusoid_table window_mask filt blur_kernel mel_basis dct",
	encodingName:  "pe penc positional_encoding positional_encodings pos_encoding pos_enc position_encoding sinusoid sinusoids pos_table pos_encodings",
	frequencyName: "freq freqs frequency frequencies fourier omega omegas b_gauss b_matrix",
	statisticName: "mean std var variance stddev sigma",
	spectralName:  "weight_u weight_v _u _v u v",
}

// ScalarName reports whether a name is usual for a parameter that is one number.
func ScalarName(name string) bool { return nameKind(name) == learntScalarName }

var kindByName = func() map[string]kindOfName {
	m := map[string]kindOfName{}
	for kind, list := range namesOfKind {
		for _, n := range strings.Fields(list) {
			m[n] = kind
		}
	}
	return m
}()

// numbered matches the names that exporters make up: a number, perhaps after the name of an
// operator or of a Constant node.
var numbered = regexp.MustCompile(`^(onnx::.*|\d*|(.*/)?_?[A-Z][A-Za-z]*(_output|_?\d+)*|.*(constant|const_fold|_opt)[a-z_]*\d*|(val|const|tensor|t|w|c|p|x|v)_?\d+)$`)

var trailing = regexp.MustCompile(`[_.]?\d+$`)

// nameKind returns what a name says.
func nameKind(name string) kindOfName {
	lower := strings.ToLower(name)
	last := lower[strings.LastIndexAny(lower, "./:")+1:]
	for _, n := range []string{last, trailing.ReplaceAllString(last, ""), trailing.ReplaceAllString(lower, "")} {
		if kind, ok := kindByName[n[strings.LastIndexAny(n, "./:")+1:]]; ok {
			return kind
		}
	}
	if numbered.MatchString(name) {
		return generatedName
	}
	return otherName
}
