// Package onnx reads and writes the ONNX file format, the protobuf messages of
// onnx.proto. It knows nothing of what the operators mean.
//
//	m, err := onnx.Read(file)
//	if err != nil {
//		return err // says where in the file the fault is
//	}
//	for _, n := range m.Graph.Nodes {
//		if a := n.Attr("alpha"); a != nil && a.Type == onnx.AttrFloat {
//			a.F *= 2
//		}
//	}
//	err = m.Write(out)
//
// Decoding accepts every form in which the format can store a tensor: raw_data
// and the typed data fields, packed or not, with float16 and bfloat16 in either.
// Elements are held as float64 or int64, which is exact. Encoding writes
// raw_data in the tensor's own type, and the result decodes to an equal Model.
// Fields that this package does not know are kept as bytes.
//
// A file is not trusted. A tensor's shape is compared with the number of elements
// in the file before memory of that size is allocated, graphs are nested at most
// MaxDepth deep, and every fault is reported as a *FormatError.
//
// The elements of a tensor may be in another file. Such a Tensor has an External in
// place of elements, and Tensor.Load reads them.
package onnx
