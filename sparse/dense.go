package sparse
