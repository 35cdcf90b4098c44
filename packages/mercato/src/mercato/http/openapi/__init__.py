"""The OpenAPI document and llms.txt, made from the operations. No operation is written down here."""
