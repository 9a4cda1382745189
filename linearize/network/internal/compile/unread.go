package compile

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
)

// An Unread is a kind of operators that are not read.
type Unread struct {
	Operators string      // names with spaces between them; a domain with .* is all of its operators that are not named elsewhere
	Reason    option.Text // a clause about one of them or several
	Cure      option.Text // what to do about it
}

// Cures that several kinds share.
const (
	unoptimized = "give the model as it was before onnxruntime optimized it, or save it with the optimization level basic"
	before      = "take a tensor before it with {ReadOptions.Output output} NAME, or export the model up to there"
)

// unread holds the kinds of operators that are not read. The first one that names an operator counts.
var unread = []Unread{
	{"QLinearConv QLinearMatMul ConvInteger MatMulInteger DynamicQuantizeLinear com.microsoft.QLinearAdd com.microsoft.QLinearAveragePool " +
		"com.microsoft.QLinearConcat com.microsoft.QLinearConv com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu com.microsoft.QLinearMul " +
		"com.microsoft.QLinearReduceMean com.microsoft.QLinearSigmoid com.microsoft.QLinearSoftmax com.microsoft.QLinearWhere com.microsoft.QGemm " +
		"com.microsoft.QAttention com.microsoft.QMoE com.microsoft.DynamicQuantizeMatMul com.microsoft.DynamicQuantizeLSTM com.microsoft.MatMulIntegerToFloat " +
		"com.microsoft.MatMulInteger16 com.microsoft.MatMulNBits com.microsoft.MatMulBnb4 com.microsoft.MatMulFpQ4 com.microsoft.GatherBlockQuantized " +
		"com.microsoft.QuantizeLinear com.microsoft.DequantizeLinear",
		"it computes with quantized integers, which have no derivative in the weights",
		"give the model as it was before quantization, or quantized in the form QDQ (QuantizeLinear and DequantizeLinear around float operators)"},
	{"com.microsoft.nchwc.* com.ms.internal.nhwc.*", "it is of the layout in memory of a model that onnxruntime optimized for one processor", unoptimized},
	{"com.microsoft.*", "it is of onnxruntime alone, which puts it in the place of nodes of ONNX when it optimizes a model", unoptimized},
	{"RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial",
		"it draws random numbers, so that the outputs are no function of the input", "export the model in evaluation mode, or with the noise as an input that {ReadOptions.Bind bind} NAME=VALUE gives"},
	{"IsNaN IsInf ai.onnx.ml.Imputer", "it looks for missing values, which rows of data never have here",
		"fill them in in the data, and export the model without this step"},
	{"SequenceMap Optional OptionalGetElement OptionalHasElement", "it works on sequences of tensors that need not be there", "export the model by tracing it for inputs of a fixed size, or with Split, Slice and Concat in their place"},
	{"ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.LabelEncoder ai.onnx.ml.Binarizer ai.onnx.ml.ZipMap ai.onnx.ml.CategoryMapper", "it makes labels or picks columns for them",
		"take the numbers before it with {ReadOptions.Output output} NAME"},
	{"ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor",
		"a forest or a support vector machine is no network with weights to be linearized in", "give a network or a linear model; there is no other way"},
	{"ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.Scaler ai.onnx.ml.Normalizer",
		"its numbers do not fit together, or its post_transform is none of NONE, SOFTMAX and LOGISTIC", "export it with raw scores (skl2onnx: options={{id(model): {{\"raw_scores\": True}}}})"},
	{"ai.onnx.ml.DictVectorizer ai.onnx.ml.FeatureVectorizer ai.onnx.ml.OneHotEncoder StringNormalizer StringConcat StringSplit RegexFullMatch TfIdfVectorizer",
		"it makes numbers of text or categories", "make these numbers in the data, and export the model from them on"},
	{"NonMaxSuppression Unique Compress", "the size of its result depends on the input", before},
	{"Adagrad Adam Momentum Gradient ai.onnx.preview.training.* ai.onnx.training.*", "it is of a training", "export the model for inference"},
}

// unreadKind returns the kind of an operator that is not read.
func unreadKind(name string) Unread {
	domain := ""
	if i := strings.LastIndex(name, "."); i >= 0 {
		domain = name[:i]
	}
	for _, u := range unread {
		if list := strings.Fields(u.Operators); slices.Contains(list, name) || slices.Contains(list, domain+".*") {
			return u
		}
	}
	if domain == "" {
		return Unread{Reason: "it is not among the operators of ONNX that {network.Operators inspect operators} lists", Cure: before}
	}
	return Unread{Reason: option.Textf("it is of the domain %s, whose operators are not ONNX's and have no definition in the file", brief(domain, 60)),
		Cure: "export the nodes of ONNX that it stands for, or define it as a function of the model"}
}

// UnreadList returns the kinds of operators that are not read, with the reason and the cure of each.
func UnreadList() []Unread { return slices.Clone(unread) }
