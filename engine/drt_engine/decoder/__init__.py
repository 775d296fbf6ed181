"""A DRT that starts from a pretrained language model: its upper layers read stored chunk memory."""
