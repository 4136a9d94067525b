package farm

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// describeUpload describes the body of an upload, which is not JSON.
func describeUpload() *huma.RequestBody {
	number := func(text string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Description: text}
	}
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	file := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"id", "name", "path", "size", "sha256", "chunkBytes", "mode"},
		Properties: map[string]*huma.Schema{
			"id":         text("Names the file in the names of its chunks: 1 to 32 letters, digits, hyphens and underscores."),
			"name":       text("Of the artifact in the job's spec that the file belongs to."),
			"path":       text("Relative to the working directory, with slashes. Of two files of an artifact no system may take one for the other."),
			"size":       number("Bytes."),
			"sha256":     text("64 lower-case hex digits."),
			"chunkBytes": number("Of each chunk but the last, 8388608 for example; 5242880 to 67108864 in a file of several."),
			"mode":       number("Permission bits: 420 is rw-r--r--."),
		},
	}
	manifest := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"epoch", "files"}, Description: "At most 1 MiB.",
		Properties: map[string]*huma.Schema{"epoch": number("Of the assignment that the runner had."),
			"files": {Type: huma.TypeArray, Items: file}},
	}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"multipart/form-data": {
		Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"manifest"}, Properties: map[string]*huma.Schema{"manifest": manifest},
			AdditionalProperties: &huma.Schema{Type: huma.TypeString, Format: "binary", Description: "A chunk, named <file>.<chunk>."},
		},
		Encoding: map[string]*huma.Encoding{"manifest": {ContentType: "application/json"}},
	}}}
}

// describeUploaded describes the answer to an upload, which the handler encodes itself.
func describeUploaded(schemas huma.Registry) *huma.Response {
	return &huma.Response{
		Description: http.StatusText(http.StatusOK),
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeFor[uploaded](), true, "Uploaded")}},
		Headers: map[string]*huma.Param{"X-Svc-Position": {
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64"},
			Description: "The sequence number that the workspace's log reached by this request.",
		}},
	}
}
