package compile

import (
	"github.com/funcgp/funcgp/internal/onnx"
)

// attributeTypes holds the types of the attributes that are read, sorted by name.
// "value" is not among them: it is a number in Pad and a tensor elsewhere.
var attributeTypes = map[string]onnx.AttrType{
	"activation_alpha":               onnx.AttrFloats,
	"activation_beta":                onnx.AttrFloats,
	"activations":                    onnx.AttrStrings,
	"allowzero":                      onnx.AttrInt,
	"alpha":                          onnx.AttrFloat,
	"antialias":                      onnx.AttrInt,
	"approximate":                    onnx.AttrString,
	"auto_pad":                       onnx.AttrString,
	"axes":                           onnx.AttrInts,
	"axis":                           onnx.AttrInt,
	"batch_dims":                     onnx.AttrInt,
	"beta":                           onnx.AttrFloat,
	"bias":                           onnx.AttrFloat,
	"block_size":                     onnx.AttrInt,
	"blocksize":                      onnx.AttrInt,
	"ceil_mode":                      onnx.AttrInt,
	"clip":                           onnx.AttrFloat,
	"coordinate_transformation_mode": onnx.AttrString,
	"count_include_pad":              onnx.AttrInt,
	"cubic_coeff_a":                  onnx.AttrFloat,
	"dilations":                      onnx.AttrInts,
	"direction":                      onnx.AttrString,
	"dtype":                          onnx.AttrInt,
	"end":                            onnx.AttrInt,
	"ends":                           onnx.AttrInts,
	"epsilon":                        onnx.AttrFloat,
	"equation":                       onnx.AttrString,
	"exclude_outside":                onnx.AttrInt,
	"exclusive":                      onnx.AttrInt,
	"extrapolation_value":            onnx.AttrFloat,
	"fmod":                           onnx.AttrInt,
	"gamma":                          onnx.AttrFloat,
	"group":                          onnx.AttrInt,
	"hidden_size":                    onnx.AttrInt,
	"input_forget":                   onnx.AttrInt,
	"k":                              onnx.AttrInt,
	"keep_aspect_ratio_policy":       onnx.AttrString,
	"keepdims":                       onnx.AttrInt,
	"kernel_shape":                   onnx.AttrInts,
	"lambd":                          onnx.AttrFloat,
	"layout":                         onnx.AttrInt,
	"linear_before_reset":            onnx.AttrInt,
	"max":                            onnx.AttrFloat,
	"min":                            onnx.AttrFloat,
	"mode":                           onnx.AttrString,
	"momentum":                       onnx.AttrFloat,
	"nearest_mode":                   onnx.AttrString,
	"noop_with_empty_axes":           onnx.AttrInt,
	"num_groups":                     onnx.AttrInt,
	"num_outputs":                    onnx.AttrInt,
	"output_dtype":                   onnx.AttrInt,
	"output_padding":                 onnx.AttrInts,
	"output_shape":                   onnx.AttrInts,
	"p":                              onnx.AttrInt,
	"pads":                           onnx.AttrInts,
	"perm":                           onnx.AttrInts,
	"ratio":                          onnx.AttrFloat,
	"reduction":                      onnx.AttrString,
	"reverse":                        onnx.AttrInt,
	"scales":                         onnx.AttrFloats,
	"select_last_index":              onnx.AttrInt,
	"size":                           onnx.AttrInt,
	"spatial":                        onnx.AttrInt,
	"split":                          onnx.AttrInts,
	"start":                          onnx.AttrInt,
	"starts":                         onnx.AttrInts,
	"storage_order":                  onnx.AttrInt,
	"strides":                        onnx.AttrInts,
	"to":                             onnx.AttrInt,
	"training_mode":                  onnx.AttrInt,
	"transA":                         onnx.AttrInt,
	"transB":                         onnx.AttrInt,
	"upper":                          onnx.AttrInt,
	"value_float":                    onnx.AttrFloat,
	"value_floats":                   onnx.AttrFloats,
	"value_int":                      onnx.AttrInt,
	"value_ints":                     onnx.AttrInts,
}

// The versions of ONNX's operators that are read. Before opset 7 operators
// broadcast in a different way; opset 25 is that of ONNX 1.20.
const MinOpset, MaxOpset = 7, 25

// StandardOpset returns the version of ONNX's own operators that a model
// imports, or 0 if it imports none.
func StandardOpset(m *onnx.Model) int64 {
	version, found := int64(0), false
	for _, o := range m.OpsetImport {
		if o.Domain != "" && o.Domain != "ai.onnx" {
			continue
		}
		if !found || o.Version > version {
			version, found = o.Version, true
		}
	}
	return version
}
