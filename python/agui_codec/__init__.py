from agui_codec._native import EventEncoder, to_json
